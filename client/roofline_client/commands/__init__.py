"""The commands, a file each: what is asked, how it is shown. `cli.py` is the table of them."""
