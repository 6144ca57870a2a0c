"""Kills, damage, full disks, lost folders and second writers, and what is left: `python -m
benchmarks.faults`.
"""
