"""Simulation: the one door to a model and its data: fit, sample, evaluate, resume."""
