"""perf stat: as text, with separators, as JSON, by interval, socket, core or cgroup."""
