"""The health service that probes of gRPC know (grpc.health.v1): for everybody, and it says nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from roofline.v1 import health_pb2 as pb
from roofline.v1 import health_pb2_grpc

from .health import Health

KNOWN = frozenset(("", "roofline.v1.Ingest", "roofline.v1.Query"))  # services; "": the server
MOST_WATCHERS = 32
LOOK_S = 0.5


class HealthService(health_pb2_grpc.HealthServicer):
    """Implements grpc.health.v1.Health."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._watchers = 0

    def add_to(self, server: grpc.aio.Server) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in KNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return pb.HealthCheckResponse(status=self._status(request.service))

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if self._watchers >= MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MOST_WATCHERS} watch already")
        self._watchers += 1
        try:
            last = None
            while True:
                stopping, status = self._health.stopping, self._status(request.service)
                if status != last:
                    yield pb.HealthCheckResponse(status=status)
                if stopping:
                    return
                last = status
                await asyncio.sleep(LOOK_S)
        finally:
            self._watchers -= 1

    def _status(self, service: str) -> Any:
        response = pb.HealthCheckResponse
        if service not in KNOWN:
            return response.SERVICE_UNKNOWN
        return response.NOT_SERVING if self._health.reasons() else response.SERVING
