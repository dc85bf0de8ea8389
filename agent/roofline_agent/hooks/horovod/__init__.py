"""The hooks of Horovod; which modules they wait for stands in HOOKS."""
