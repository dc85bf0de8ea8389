"""The hooks of PyTorch; HOOKS says which modules they wait for."""
