"""The hooks of TensorFlow; which modules they wait for stands in HOOKS."""
