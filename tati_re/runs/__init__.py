"""Runs: the run folder on disk, written whole, read while it grows, and compared; without TensorFlow."""
