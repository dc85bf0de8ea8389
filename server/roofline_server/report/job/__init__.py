"""The report of a job: roles, ranks, machines, gaps and notes."""
