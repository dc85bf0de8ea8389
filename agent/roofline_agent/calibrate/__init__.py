"""`roofline-agent calibrate`: the ceilings of this node.

`command` is its command, `node` measures the CPUs, `gpu` the GPUs, `compare` puts other tools' results
beside, `store` keeps what the daemon tells the server.
"""
