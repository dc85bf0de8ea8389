"""A real gRPC server on a free port whose Query service follows a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from roofline.v1 import health_pb2, health_pb2_grpc, models_pb2, query_pb2_grpc
from roofline.v1 import query_pb2 as pb

Script = Callable[[Any, grpc.ServicerContext], Any]


class Asked(NamedTuple):
    address: str
    requests: list[Any]


def refuse(code: grpc.StatusCode, details: str = "because") -> Script:
    def abort(request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(code, details)

    return abort


def answer(message: Any) -> Script:
    return lambda request, context: message


def chunks(*messages: Any) -> Script:
    """Of a question that is answered in pieces."""
    return lambda request, context: iter(messages)


class NotReady(health_pb2_grpc.HealthServicer):
    def Check(self, request: Any, context: Any) -> Any:
        return health_pb2.HealthCheckResponse(status="NOT_SERVING")


@contextmanager
def serving(
    report: Script | None = None, jobs: Script | None = None, ready: bool = True, **others: Script | None
) -> Iterator[Asked]:
    """A server that answers so; without any script it has no Query service at all.

    ready: False for one that says that it is not. others: scripts of methods by their names, as GetSteps.
    """
    asked: list[Any] = []
    scripts = {
        "GetReport": report or answer(pb.Report()),
        "ListJobs": jobs or answer(pb.ListJobsResponse()),
        "GetRoofline": answer(models_pb2.Roofline()),
        **others,
    }

    def method(script: Script) -> Any:
        def respond(self: Any, request: Any, context: Any) -> Any:
            asked.append(request)
            return script(request, context)

        return respond

    methods = {name: method(script) for name, script in scripts.items() if script is not None}
    made = type("Query", (query_pb2_grpc.QueryServicer,), methods)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    if report or jobs or others:
        query_pb2_grpc.add_QueryServicer_to_server(made(), server)
    if not ready:
        health_pb2_grpc.add_HealthServicer_to_server(NotReady(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield Asked(f"127.0.0.1:{port}", asked)
    finally:
        server.stop(None).wait()


@contextmanager
def never_answering() -> Iterator[Asked]:
    """A server that takes the question and keeps it until the test is over."""
    over = threading.Event()

    def wait(request: Any, context: Any) -> Any:
        over.wait(60)
        return pb.Report()

    with serving(report=wait, jobs=wait) as asked:
        try:
            yield asked
        finally:
            over.set()
