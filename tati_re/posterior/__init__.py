"""Posterior: the potential U = λL + V, its gradient, variance and predictions, for all walkers at once."""
