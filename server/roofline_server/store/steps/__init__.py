"""Step deltas and kernel totals, made of raw data at a sealing or when asked for."""
