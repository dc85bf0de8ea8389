"""The network between two agents: latency and bandwidth over plain TCP and over gRPC, and throughput of a
parameter server, as TF-gRPC-Bench measures it (Biswas, Lu, Panda 2018, arXiv 1804.01138).

Both ends measure in a process of their own (`python -m roofline_agent.netbench`), so that the agent goes on
sampling; `NetBench` starts, follows and ends it.
"""
