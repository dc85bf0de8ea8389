"""What to try: of the table of advice what holds in a case, with its numbers put in."""

from __future__ import annotations

import shlex
from math import ceil
from typing import NamedTuple

from roofline.texts import listed

from .advice_cases import CYCLE_TIME, FUSION, Case
from .advice_table import ADVICE, Advice
from .verdict import agreeing
from .wording import duration, many, quantity

SHOWN = 4

# Where there is too little data for a verdict.
FAILED_BEFORE = "it failed before its first step"
NO_STEPS = "start the ranks with `roofline-agent run -- COMMAND`, or mark steps with roofline_step"
ENOUGH = 50  # steps for a verdict of high confidence
FEW_STEPS = f"train some {ENOUGH} steps, then ask again"
RECORD_MORE = "record kernels of all steps: `roofline-agent run --kernels all`"
NOT_MEASURED = "`roofline-agent doctor` on its nodes shows what is not measured, and why"


class Advised(NamedTuple):
    evidence: list[str]
    tries: list[str]


def advise(case: Case) -> Advised:
    """What to try, and what, apart from the finding's own evidence, shows that it may help."""
    found = _for_kinds(case, {case.kind}) or _for_kinds(case, set(case.kind.split("|")))
    words = _words(case)
    evidence = dict.fromkeys(one.evidence.format(**words) for one in found if one.evidence)
    return Advised(list(evidence), [one.tries.format(**words) for one in found])


def _for_kinds(case: Case, kinds: set[str]) -> list[Advice]:
    """Of a merged part, of which it is not known which of several it is, what is meant for any of them."""
    return [one for one in ADVICE if kinds.intersection(one.kinds) and one.holds(case)][:SHOWN]


def _words(case: Case) -> dict[str, object]:
    """The fields as they appear in a sentence, and what follows from several of them."""
    return {
        **case._asdict(),
        "job": shlex.quote(case.job),  # used in commands alone
        "rank": listed(case.ranks, 3) or case.only or "every rank",
        "node": f"node {case.host}" if case.host else "its node",
        "of_host": f" of {case.host}" if case.host else "",  # as verdict.foreign says it: it is said once
        "all_workers": many(case.workers, "worker"),
        "all_ranks": many(case.on_node, "rank"),
        "all_cpus": many(case.cpus or 0, "CPU"),
        "computing": _computing(case),
        "fair_threads": max(1, (case.cpus or case.per_node) // max(1, case.per_node)),
        "more_servers": case.servers + 1,
        "cycle_ms": case.settings.get(CYCLE_TIME, "1"),
        "fusion_mb": _megabytes(case.settings.get(FUSION, "")),
        "as_it_is": "" if case.settings.keys() & {CYCLE_TIME, FUSION} else ": the defaults of Horovod 0.28",
        "busy": f"{case.gpu_busy:.0%}" if case.gpu_busy is not None else "",
        "copied_rate": quantity(case.copied, "B/s") if case.copied is not None else "",
        "tensor_share": f"{case.tensor:.0%}" if case.tensor is not None else "",
        "kernel": duration(case.kernel_s) if case.kernel_s is not None else "",
        "narrow_share": f"{case.narrow:.0%}" if case.narrow is not None else "",
        "part": f"{case.bytes_share:.0%}" if case.bytes_share is not None else "",
        "it": agreeing(len(case.ranks))["it"],
        "does": agreeing(len(case.ranks))["does"],
        "s": agreeing(len(case.ranks))["s"],
        "even": f"{1 / max(1, case.servers):.0%}",
        "foreign_cpus": f"{case.foreign:.1f}" if case.foreign is not None else "",
    }


def _computing(case: Case) -> str:
    """ "2 ranks of 8 threads each", "1 rank of 1 thread"."""
    each = " each" if case.per_node > 1 else ""
    return f"{many(case.per_node, 'rank')} of {many(case.threads or 0, 'thread')}{each}"


def _megabytes(setting: str) -> str:
    return f"{ceil(int(setting) / 2**20)}" if setting.isdecimal() else "128"


# -- of a verdict that is not known: what to do to know more ------------------------------------------------


def to_know_more(steps: int, least: int, why: str = "") -> str:
    """steps: how many steady ones there are of the rank that has most; least: that a verdict needs.
    why: there are none, as far as that is known."""
    if not steps:
        return why or NO_STEPS
    return FEW_STEPS if steps < least else NOT_MEASURED


def to_choose_more(first: int, last: int) -> str:
    """Of a job with these steps, of which too few were asked for."""
    return f"choose at least {ENOUGH} of the job's steps ({first} to {last})"


def to_sample_more(seconds: float, samples: int) -> str:
    """seconds: of the steps; samples: that lie in them."""
    hold = f"the steps last {duration(seconds)} and hold {many(samples, 'sample')}"
    return f"{hold}: train longer, or sample more often (`roofline-agent --interval`)"
