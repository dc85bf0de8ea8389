"""Where the time of each step went, and what steps would have been without a part of it."""
