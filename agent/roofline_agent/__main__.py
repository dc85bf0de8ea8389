"""`python -m roofline_agent` and the `roofline-agent` command."""

from .cli import main

if __name__ == "__main__":
    main()
