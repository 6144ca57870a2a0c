"""Predictions on tables beside what a user would take otherwise, at equal processor time."""
