"""Adds to a verdict what to try, for each finding and for the next gain of a healthy job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from roofline.answers.verdict import Finding, RankAccount, Verdict

from ...correlate.steps import SERVING_ROLES
from ...model.causes.kinds import stretched_phases
from ...model.evidence import NS, RankEvidence, total_of
from ...model.intervals import LEAST_STEPS
from ...model.roofline.point_limits import widths_of
from ...sentences import advice, advice_cases
from ...sentences.notes import held_clock
from ...store.view import JobView
from ..ceilings.limits import of_ranks
from ..ceilings.nodes import cpus_of
from ..evidence.barriers import seldom_seen
from ..evidence.gathering import Gathered
from ..evidence.held_clocks import held_clocks
from ..evidence.no_steps import why_none
from ..evidence.training import training_ranks
from ..questions import STEADY_STEPS, Steps
from ..ranks.members import roles_aside
from .foreign import foreign_cpus
from .signals import signals_of

SETTING, HOOK = "setting.", "hook."
THREADS = ("OMP_NUM_THREADS", "intra_op_threads", "TF_NUM_INTRAOP_THREADS")  # the first that is set
ENOUGH_SAMPLES = 5  # of a rank, within its steps: with fewer what they took is mostly not known


def advised(
    view: JobView, gathered: Gathered, found: Verdict, has_failed: bool = False, steps: Steps = STEADY_STEPS
) -> Verdict:
    """This verdict with what to try. has_failed: the job has. steps: that were asked for."""
    if found.kind == "unknown":
        most = max((one.steps for one in found.accounts), default=0)
        why = "" if most else _why_no_steps(view, has_failed)
        more = advice.to_know_more(most, LEAST_STEPS, why)
        are_chosen = steps.is_bounded and steps.since_ns is None
        if 0 < most < LEAST_STEPS and are_chosen and (seen := _first_and_last(view)) is not None:
            more = advice.to_choose_more(*seen)
        elif seldom_seen(gathered.evidence, gathered.barriers) is not None:
            more = advice.RECORD_MORE
        elif most >= LEAST_STEPS and (few := _few_samples(gathered)) is not None:
            more = advice.to_sample_more(*few)
        return found._replace(headline=f"{found.headline}; {more}")
    if not gathered.evidence:
        return found
    aside = _roles_aside(gathered)
    training = [one for one in found.accounts if one.role not in aside] or found.accounts
    base = _case(view, gathered)._replace(of_roof=_of_roof(training))
    foreign = foreign_cpus(view, gathered)

    hosts = Counter(rank.host for rank in gathered.evidence.values())
    computing = Counter(rank.host for rank in training_ranks(gathered.evidence).values())

    def with_advice(one: Finding) -> Finding:
        ranks = tuple(one.rank.split(", ")) if one.rank else ()
        host = one.host or (next(iter(hosts)) if len(hosts) == 1 else "")
        own = [rank for rank in gathered.evidence.values() if rank.key in ranks]
        case = base._replace(
            kind=one.kind,
            ranks=ranks,
            host=host,
            per_node=computing[host] or base.per_node,
            on_node=hosts[host] or base.on_node,
            cpus=(cpus_of(view, host) if host else 0) or base.cpus,
            foreign=foreign.get(host),
            bytes_share=_share_of_bytes(own, gathered.evidence.values()),
            held_clock=_held_clock(view, ranks),
            stretched=one.kind == "slower" and _are_stretched(view, gathered, ranks),
        )
        more = advice.advise(case)
        new = [line for line in more.evidence if line not in one.evidence]
        return one._replace(evidence=[*one.evidence, *new], tries=[*one.tries, *more.tries])

    return found._replace(
        bottleneck=with_advice(found.bottleneck) if found.bottleneck else None,
        also=[with_advice(one) for one in found.also],
    )


def _are_stretched(view: JobView, gathered: Gathered, ranks: Collection[str]) -> bool:
    """Whether all phases of these ranks take longer than the others', as the finding's evidence then says."""
    barriers = gathered.barriers
    concerned = barriers.ranks if barriers.kind else training_ranks(gathered.evidence)
    signals = [one for number, one in signals_of(view, gathered).items() if number in concerned]
    own = [one for one in signals if one.rank in ranks]
    return bool(own) and stretched_phases(own, signals) is not None


def _held_clock(view: JobView, ranks: Collection[str]) -> str:
    """Of the GPU of these ranks, or of all, that was held down most; "": none was."""
    mine = [one for one in held_clocks(view) if one.rank in ranks or not ranks]
    worst = max(mine, key=lambda one: max(one.shares.values()), default=None)
    return held_clock(*worst) if worst is not None else ""


def _first_and_last(view: JobView) -> tuple[int, int] | None:
    """The steps that the job has; None: too few, whichever are chosen."""
    step = view.steps["steps"]["step"]
    first, last = int(step.min()), int(step.max())
    return (first, last) if last - first + 1 >= advice.ENOUGH else None


def _few_samples(gathered: Gathered) -> tuple[float, int] | None:
    """Seconds of the steps of the rank in which most samples lie, and how many; None: these are enough."""
    known = [
        (
            round(rank.samples_per_step * len(rank.steps.step)),
            float((rank.steps.end_ns - rank.steps.begin_ns).sum()) / NS,
        )
        for rank in training_ranks(gathered.evidence).values()
        if rank.samples_per_step is not None
    ]
    samples, seconds = max(known, default=(ENOUGH_SAMPLES, 0.0))
    return (seconds, samples) if samples < ENOUGH_SAMPLES else None


def _why_no_steps(view: JobView, has_failed: bool) -> str:
    """Of the first rank that should have some; "": there is none."""
    if has_failed:
        return advice.FAILED_BEFORE
    training = [number for number, who in view.ranks.items() if who.role not in SERVING_ROLES]
    return why_none(view, min(training)) if training else ""


def _roles_aside(gathered: Gathered) -> frozenset[str]:
    return roles_aside(rank.role for rank in gathered.evidence.values())


def _case(view: JobView, gathered: Gathered) -> advice_cases.Case:
    """What holds for the job as a whole."""
    ranks, training = (list(one.values()) for one in (gathered.evidence, training_ranks(gathered.evidence)))
    hosts = Counter(rank.host for rank in training)
    fullest = max(hosts, key=lambda host: hosts[host], default="")
    settings = _settings(view)
    threads = next((settings[name] for name in THREADS if name in settings), "")
    widest = _widest(view, gathered)
    used = [rank.gpus for rank in training if rank.gpus is not None]
    return advice_cases.Case(
        kind="",
        job=view.job,
        only=training[0].key if len(training) == 1 else "",
        frameworks=_frameworks(view),
        settings=settings,
        workers=len(training),
        servers=sum(rank.role == "ps" for rank in ranks),
        hosts=len({rank.host for rank in ranks}),
        per_node=max(hosts.values(), default=1),
        on_node=sum(rank.host == fullest for rank in ranks),
        cpus=cpus_of(view, fullest) or None,
        threads=int(threads) if threads.isdecimal() else None,
        binding=_binding(view, gathered),
        narrow=_narrow(training, widest),
        widest=widest,
        kernel_s=_kernel_seconds(training),
        on_gpu=any(rank.uses_gpu for rank in training),
        gpus=max((one.gpus for one in used), default=1),
        gpu_busy=max((one.busy for one in used), default=None),
        copied=max(
            (one.copied_per_second for one in used if one.copied_per_second is not None), default=None
        ),
        tensor=max((one.tensor for one in used if one.tensor is not None), default=None),
    )


def _settings(view: JobView) -> dict[str, str]:
    """Of any rank; where ranks differ, of the last."""
    return {
        name.removeprefix(SETTING): text
        for facts in view.facts.values()
        for name, text in facts.items()
        if name.startswith(SETTING)
    }


def _frameworks(view: JobView) -> frozenset[str]:
    found = set()
    for facts in view.facts.values():
        for name in facts:
            hook = name.removeprefix(HOOK) if name.startswith(HOOK) else ""
            found |= {
                framework
                for begin, framework in (
                    ("torch", advice_cases.TORCH),
                    ("tf_", advice_cases.TENSORFLOW),
                    ("keras", advice_cases.TENSORFLOW),
                    ("horovod", advice_cases.HOROVOD),
                    ("jax", advice_cases.JAX),
                )
                if hook.startswith(begin)
            }
    return frozenset(found)


def _share_of_bytes(own: Sequence[RankEvidence], ranks: Iterable[RankEvidence]) -> float | None:
    """Of what all parameter servers receive; of ranks that are none not known."""
    if not own or any(rank.role != "ps" for rank in own):
        return None
    known = {rank.key: rank.received.total for rank in ranks if rank.role == "ps" and rank.received}
    whole = sum(known.values())
    return sum(known.get(rank.key, 0.0) for rank in own) / whole if whole > 0 else None


def _binding(view: JobView, gathered: Gathered) -> str:
    """Kind of the ceiling above the ranks that train, by FLOPs and tensor bytes of their kernels."""
    for number, rank in gathered.evidence.items():
        known = rank.kernels
        if known is None or known.rule or not known.has_flops or not known.has_bytes:
            continue
        flops, moved = total_of(known.flops), total_of(known.bytes)
        if flops > 0 and moved > 0:
            for limits in of_ranks(view, {number: rank}):
                if (ceiling := limits.binding(flops / moved)) is not None:
                    return ceiling.kind
    return ""


def _widest(view: JobView, gathered: Gathered) -> int | None:
    """Bits of the vectors of the peak that ranks are compared with."""
    widths = [limits.compute.width for limits in of_ranks(view, gathered.evidence) if limits.compute]
    return max(widths, default=0) or None


def _narrow(ranks: Sequence[RankEvidence], widest: int | None) -> float | None:
    widths = widths_of(ranks)
    total = sum(widths.values())
    if not widest or not total > 0:
        return None
    return sum(flops for width, flops in widths.items() if width < widest) / total


def _kernel_seconds(ranks: Sequence[RankEvidence]) -> float | None:
    """Mean time of a kernel; None: how many there were is not known."""
    known = [r.kernels for r in ranks if r.kernels is not None and r.kernels.calls is not None]
    calls = sum(k.total("calls") for k in known)
    return sum(k.total("kernel_ns") for k in known) / calls / 1e9 if calls > 0 else None


def _of_roof(accounts: Sequence[RankAccount]) -> float | None:
    """What the roof would need of the time that kernels take; None: not known of any rank."""
    needed = took = 0.0
    for one in accounts:
        computing = sum(p.time.value or 0.0 for p in one.parts if p.part == "compute")
        if one.roof.value is not None and computing > 0:
            needed, took = needed + one.roof.value, took + computing
    return needed / took if took > 0 else None
