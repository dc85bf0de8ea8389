"""The hooks of Horovod; HOOKS says which modules they wait for."""
