"""`python -m roofline_server` and the `roofline-server` command."""

from .cli import main

if __name__ == "__main__":
    main()
