"""The mutating admission webhook: an API server posts each pod that is to be made, and gets a patch back.

It never refuses a pod and never fails one: what it cannot understand is let through as it is.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Collection
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .patch import Patch, patch_for

log = logging.getLogger(__name__)


def review(asked: dict[str, Any], claimed: Collection[str] = ()) -> dict[str, Any]:
    """The AdmissionReview (admission.k8s.io/v1) that answers this one. Raises KeyError, TypeError."""
    request = asked["request"]
    try:
        made = patch_for(request["object"], request["namespace"], claimed)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        log.warning("a pod of %s could not be prepared: %r", request.get("namespace"), error)
        made = Patch([], ["roofline could not prepare this pod; it is not recorded"])
    answer: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    if made.operations:
        patch = base64.b64encode(json.dumps(made.operations).encode()).decode()
        answer |= {"patchType": "JSONPatch", "patch": patch}
    if made.warnings:
        answer["warnings"] = [f"roofline: {text}" for text in made.warnings]
    return {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer}


def application(claimed: Collection[str] = ()) -> Starlette:
    """POST /mutate for the API server, GET /healthz for the kubelet."""

    async def mutate(request: Request) -> Response:
        try:
            return JSONResponse(review(json.loads(await request.body()), claimed))
        except (KeyError, TypeError, ValueError):
            return PlainTextResponse("no AdmissionReview\n", status_code=400)

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/mutate", mutate, methods=["POST"]), Route("/healthz", health)])
