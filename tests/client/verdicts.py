"""Verdicts made up of plain records, as the server would send them."""

from __future__ import annotations

from typing import Any

from roofline.answers.verdict import AccountPart, Finding, Gain, LeftOut, RankAccount, Verdict

from .reports import absent, seen


def finding(**more: Any) -> Finding:
    made = Finding(
        kind="server_overloaded",
        rank="ps:1",
        host="node1",
        sentence="ps:1 stalls the workers",
        cost=seen(0.0761, "s"),
        share=seen(0.48, "1"),
        gain=Gain(0.157, 0.081, 0.078, 0.09),
        rate=seen(780.4, "examples/s"),
        confidence="high",
        why="",
        evidence=["its busiest thread is in use 82% of the time", "workers wait 48% of a step for it"],
        tries=["split its 2.5 MiB variable over both servers", "roofline-client stragglers --job 42"],
    )
    return made._replace(**more)


def account(rank: str = "worker:0", step: float | None = 0.157, **shares: float) -> RankAccount:
    """shares: of the parts, in their order."""
    length = step or 0.0
    parts = [
        AccountPart(p.replace("__", "|"), seen(s * length, "s"), seen(s, "1")) for p, s in shares.items()
    ]
    return RankAccount(
        rank,
        rank.partition(":")[0],
        "node1",
        110 if step else 0,
        absent("s") if step is None else seen(step, "s"),
        parts,
        absent("s"),
        seen(0.52, "core"),
        seen(40.2e6, "byte/s"),
        seen(39.8e6, "byte/s"),
        "0",
    )


def verdict(**more: Any) -> Verdict:
    """An overloaded server."""
    made = Verdict(
        state="finished (exit 0)",
        headline="ps:1 stalls the workers",
        kind="bottleneck",
        bottleneck=finding(),
        also=[finding(kind="contention", rank="", sentence="the node lacks CPUs", gain=None, tries=[])],
        examples_per_second=seen(404.4, "examples/s"),
        step_median=seen(0.093, "s"),
        step_mean=seen(0.157, "s"),
        step_p95=seen(0.31, "s"),
        left_out=[LeftOut("warm-up", 10, seen(4.1, "s"))],
        accounts=[
            account("worker:0", input=0.01, compute=0.46, contention=0.03, wait_ps=0.48, other=0.02),
            account("worker:1", 0.151, input=0.01, compute=0.47, contention=0.04, wait_ps=0.46, other=0.02),
            account("ps:1", None),
        ],
        roofline=["workers at 36% of their half of the node's peak (FP32, compute): not the limit now"],
        quality=["ceilings were measured on a busy node (19% other load): roofline-agent calibrate"],
    )
    return made._replace(**more)


def healthy(**more: Any) -> Verdict:
    gain = finding(
        kind="input",
        rank="",
        sentence="input could be overlapped",
        cost=seen(0.004, "s"),
        share=seen(0.04, "1"),
    )
    made = verdict(
        kind="healthy",
        headline="healthy: bound by compute, at 64% of its roof",
        bottleneck=None,
        also=[gain],
    )
    return made._replace(**more)


def unknown(**more: Any) -> Verdict:
    """Of a job that nobody saw a step of."""
    no_step = absent("s", "no steps were seen")
    made = verdict(
        kind="unknown",
        headline="not known: no steps were seen; start the ranks with `roofline-agent run -- COMMAND`",
        bottleneck=None,
        also=[],
        examples_per_second=absent("examples/s", "no steps were seen"),
        step_median=no_step,
        step_mean=no_step,
        step_p95=no_step,
        left_out=[],
        accounts=[account("worker:0", None)],
        roofline=[],
        quality=[],
    )
    return made._replace(**more)
