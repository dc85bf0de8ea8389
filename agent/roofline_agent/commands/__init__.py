"""Commands of the agent's command line that need a file of their own; cli.py registers them."""
