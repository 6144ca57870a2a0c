"""Posteriors of posteriordb, sampled by defaults and compared with its reference draws."""
