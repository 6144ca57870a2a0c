"""Replica exchange: ladders of temperatures, rules that accept swaps, schedules, and the bias of the energies."""
