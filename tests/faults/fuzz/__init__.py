"""Odd input for everything that reads what others wrote: targets, mutated real input, and counts."""
