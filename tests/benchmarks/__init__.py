"""`make bench`: each line of the budget table, measured on real processes next to something real."""
