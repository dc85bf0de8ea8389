"""The service that clients ask: `service` speaks gRPC, `answers` computes, `bench_net` has agents measure."""

from .service import QueryService

__all__ = ["QueryService"]
