"""What assistants may ask over the Model Context Protocol: it only reads, and answers as on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from roofline.answers.model_flops import ModelFlops

from . import __version__
from .api import connect
from .errors import ClientError
from .newest import resolve_job
from .step_range import parse_steps
from .tables import efficiencies, job_comparisons, screen, text
from .tables import jobs as job_list
from .tables import stragglers as waits
from .tables import what_if as predictions

INSTRUCTIONS = """Roofline profiles of deep-learning trainings on this cluster. Begin with `jobs`, then
`report`. A job is named as `jobs` names it ("42", "42/2"), or "last". A "-" is a value that was
not measured, never zero. Evidence and confidence stand beside each cause: do not claim more than they say."""
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
MOST_JOBS = 50


def tools(server: str) -> MCPServer:
    """The questions as tools. server: HOST:PORT; "": the one joined last."""
    offered = MCPServer("roofline", instructions=INSTRUCTIONS, version=__version__)
    asked = _Questions(server)
    for question in (
        asked.jobs,
        asked.report,
        asked.stragglers,
        asked.what_if,
        asked.efficiency,
        asked.compare,
    ):
        offered.tool(annotations=READS)(question)
    return offered


class _Questions:
    """Assistants read the names, types and docstrings of these methods."""

    def __init__(self, server: str) -> None:
        self._server = server

    def _answer(self, ask: Callable[[Any], Any]) -> str:
        """What is asked of a client, as text."""
        try:
            with connect(self._server) as client:
                return text.rendered(ask(client))
        except ClientError as error:
            raise ToolError(str(error)) from None

    def jobs(self, most: int = MOST_JOBS) -> str:
        """List jobs, newest first: name, state, begin, seconds, ranks, nodes, tags. most: how many lines."""
        return self._answer(lambda client: job_list.as_text(client.jobs(max(1, most))))

    def report(self, job: str, full: bool = False, steps: str = "") -> str:
        """What holds a job back, what that costs, what to try, and where the steps of each rank go.

        job: its name, or "last". full: all tables too. steps: "FIRST:LAST", "all"; default the steady ones.
        """
        first, last = _steps(steps)
        form = screen.in_full if full else screen.as_text
        return self._answer(lambda client: form(client.report(resolve_job(client, job), first, last)))

    def stragglers(self, job: str, steps: str = "") -> str:
        """Which rank the others wait for, with the evidence.

        job: its name, or "last". steps: "FIRST:LAST", "all"; default the steady ones.
        """
        first, last = _steps(steps)
        return self._answer(
            lambda client: waits.as_text(client.stragglers(resolve_job(client, job), first, last))
        )

    def what_if(
        self,
        job: str,
        ranks: int | None = None,
        servers: int | None = None,
        batch: float | None = None,
        bandwidth_times: float | None = None,
        fix: str = "",
    ) -> str:
        """Predict steps and examples/s with something changed; give at least one change.

        ranks: so many train. servers: parameter servers. batch: examples of a rank and step.
        bandwidth_times: links so many times as fast. fix: a rank ("ddp:1", "ps:0") or a part of the steps
        ("input") that is fixed, alone.
        """
        changes = {"ranks": ranks, "servers": servers, "batch": batch, "bandwidth_times": bandwidth_times}
        return self._answer(
            lambda client: predictions.as_text(client.what_if(resolve_job(client, job), **changes, fix=fix))
        )

    def efficiency(
        self,
        job: str,
        steps: str = "",
        flops_per_example: float | None = None,
        flops_per_step: float | None = None,
        parameters: float | None = None,
        tokens_per_example: float | None = None,
        layers: float | None = None,
        hidden: float | None = None,
        causal: bool = False,
        precision: str = "",
        sparse: bool = False,
    ) -> str:
        """MFU, HFU, how near the roof, and where the rest of the step goes, each with its formula.

        job: its name, or "last". steps: "FIRST:LAST", "all"; default the steady ones. What the model needs,
        one of: flops_per_example or flops_per_step (of a rank), forward and backward; parameters of a
        transformer with tokens_per_example; by default what was executed. With parameters, layers and hidden
        (heads x width of a head) count attention too, half of it if it is causal. precision: of the peak
        ("bf16"); default that of most FLOPs. sparse: also against the sparse peak.
        """
        first, last = _steps(steps)
        model = ModelFlops(
            flops_per_example=flops_per_example,
            flops_per_step=flops_per_step,
            parameters=parameters,
            tokens_per_example=tokens_per_example,
            layers=layers,
            hidden=hidden,
            causal=causal,
            precision=precision,
            sparse=sparse,
        )
        return self._answer(
            lambda client: efficiencies.as_text(
                client.efficiency(resolve_job(client, job), model, first_step=first, last_step=last)
            )
        )

    def compare(self, first: str, second: str, steps: str = "") -> str:
        """Two jobs side by side: what differed in their settings, and what that did to their steps."""
        asked = _steps(steps)
        return self._answer(
            lambda client: job_comparisons.as_text(
                client.compare(resolve_job(client, first), resolve_job(client, second), *asked)
            )
        )


def _steps(steps: str) -> tuple[int | None, int | None]:
    try:
        return parse_steps(steps)
    except ClientError as error:
        raise ToolError(str(error)) from None
