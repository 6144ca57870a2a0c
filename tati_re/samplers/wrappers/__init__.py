"""Samplers that change one thing of another sampler: its coordinates, gradients, step size,
temperature.
"""
