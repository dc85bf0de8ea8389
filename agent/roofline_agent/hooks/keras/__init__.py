"""The hooks of Keras; which modules they wait for stands in HOOKS."""
