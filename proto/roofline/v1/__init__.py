"""Version 1 of the wire. `*_pb2*.py` are generated from the `.proto` files next to them by `make proto`."""
