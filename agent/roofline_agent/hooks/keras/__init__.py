"""The hooks of Keras; HOOKS says which modules they wait for."""
