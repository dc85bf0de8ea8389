"""Results of benchmarks that are ceilings: HPL, nvbandwidth, nccl-tests; and what NCCL's inspector logs."""
