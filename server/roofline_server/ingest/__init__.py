"""The agents' side of the server: decoding batches, and the gRPC service that takes them."""
