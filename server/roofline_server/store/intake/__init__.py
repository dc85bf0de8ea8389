"""Batches from their arrival to their sealing: on disk in the inbox, decoded in the tail."""
