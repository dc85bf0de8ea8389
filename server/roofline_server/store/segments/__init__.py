"""Segments: Parquet files written, merged, read and removed."""
