"""Blocks of walkers in processes that answer messages, and what happens when one of them dies."""
