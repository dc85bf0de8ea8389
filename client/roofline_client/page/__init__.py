"""The live page: what `roofline-client` says of jobs, in a browser, while they run."""
