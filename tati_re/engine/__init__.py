"""Engine: many compiled steps; rows, checkpoints and progress, resumable byte for byte."""
