"""Kills, damage, full disks, lost folders and second writers, and what is left of a run: `python -m benchmarks.faults`."""
