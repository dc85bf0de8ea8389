"""Rooflines and statistics. Pure: numbers in, numbers with their history out."""
