"""What the framework's own Python runs to measure GPUs and dispatch overhead; writes lines of JSON.

Standard library and the framework only, and as old as Python 3.8: this runs in somebody else's environment,
where the agent is not installed. `python .../bench gpus|dispatch|facts [--quick]`.
"""
