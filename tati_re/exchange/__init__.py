"""Replica exchange: ladders of temperatures, rules that accept swaps, and schedules of who tries one."""
