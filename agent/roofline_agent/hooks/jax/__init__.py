"""The hooks of JAX; HOOKS says which modules they wait for."""
