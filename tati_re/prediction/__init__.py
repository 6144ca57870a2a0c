"""Prediction: posterior averages of the outputs of a network, and how good they are."""
