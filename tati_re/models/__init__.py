"""Keras models as functions of a flat vector of parameters."""
