"""Speed, side by side with its limit and with peers, in one run: `python -m benchmarks.engine`."""
