"""perf stat: for people, with separators, as JSON, by interval, socket, core or cgroup."""
