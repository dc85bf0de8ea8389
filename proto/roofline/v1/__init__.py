"""Version 1 of the wire. `*_pb2*.py` are generated from the `.proto` files beside them by `make proto`."""
