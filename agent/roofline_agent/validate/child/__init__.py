"""The process that works: does what it is told, and says how much of it it did."""
