"""nvprof: metrics, events, summaries and traces, as CSV and as tables for people."""
