"""nvprof: metrics, events, summaries and traces, as CSV and as text tables."""
