"""Which rank or parameter server the others wait for."""
