"""Retention: what of which job is removed when (plan.py), and how (apply.py)."""
