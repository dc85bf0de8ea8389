"""`roofline-agent calibrate`: the ceilings of this node.

`command` is its command, `node` measures the CPUs in child processes (`child`, `measure`), `gpu` the GPUs;
`compare` puts other tools' results next to ours, `store` keeps what the daemon sends to the server.

Kernels come from `assembled` (machine code, x86-64) or `compiled` (C, elsewhere): `kernels` is what both
offer, `kernel_sets` chooses. `peak` and `bandwidth` measure with them, `runs` repeats a run, `team` puts it
on CPUs.
"""
