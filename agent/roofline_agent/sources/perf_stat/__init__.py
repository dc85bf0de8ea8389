"""What the two perf sources share: asking `perf stat`, reading what it prints, summing it up."""
