"""Tools that write plain CSV: Nsight Systems, rocprof, nvidia-smi, Lightning."""
