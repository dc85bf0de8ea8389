"""likwid-perfctr: CSV, tables and time lines."""
