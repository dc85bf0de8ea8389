"""The gRPC service that clients ask: `service` answers, `messages` says it on the wire."""

from .service import QueryService

__all__ = ["QueryService"]
