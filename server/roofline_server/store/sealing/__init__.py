"""Sealing: moves what is in the tail and the inbox into segments."""
