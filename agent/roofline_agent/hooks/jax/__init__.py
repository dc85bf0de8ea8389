"""The hooks of JAX; which modules they wait for stands in HOOKS."""
