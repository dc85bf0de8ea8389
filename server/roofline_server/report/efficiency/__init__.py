"""What a job would do with something changed."""
