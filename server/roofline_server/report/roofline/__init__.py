"""Classic, hierarchical and network rooflines of a job."""
