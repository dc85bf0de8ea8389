"""`roofline-agent run`: starts one rank, reads its output, and passes steps and kernels to the agent."""
