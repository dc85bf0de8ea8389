"""`python -m roofline_client` and the `roofline-client` command."""

from .cli import main

if __name__ == "__main__":
    main()
