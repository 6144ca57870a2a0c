"""Biases of the dynamics: the well-tempered ensemble."""
