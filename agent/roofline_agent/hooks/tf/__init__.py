"""The hooks of TensorFlow; HOOKS says which modules they wait for."""
