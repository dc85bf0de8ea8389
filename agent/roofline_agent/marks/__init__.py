"""The Unix socket that training processes write to: connections, packets, and what they mean."""
