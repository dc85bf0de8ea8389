"""The catalog: which segments there are, names and their numbers, clocks, machines, processes, tags."""
