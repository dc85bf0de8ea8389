"""The wire of roofline: protobuf messages and gRPC services, one subpackage per major version."""
