"""`make bench`: each line of the budget table, measured on real processes beside something real."""
