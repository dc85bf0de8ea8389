"""How the server does, for machines and people: gRPC health, HTTP, metrics, `status`, systemd."""
