"""Nsight Compute: CSV pages of any form, and what its text output looks like; reports go through convert."""
