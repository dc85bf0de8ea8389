"""The hooks of PyTorch; which modules they wait for stands in HOOKS."""
