"""Notes of a report: what was missed, what is blurred, what is absent and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.texts import listed

from .wording import duration, first_of, many

# -- time nobody watched ------------------------------------------------------------------------------------

AGENT_RESTARTED = "the agent was not running and was started again"
BATCHES_DROPPED = "batches were dropped: the spool was full or the server refused them"
SILENT = "its agent reports no more: it was stopped, or is cut off from the server"


def gap(host: str, seconds: float, begin: str, why: str) -> str:
    """begin: "2026-11-27 12:34:56 UTC"."""
    return f"gap: {host} was not watched for {seconds:.1f} s from {begin}: {why}"


def missing_steps(rank: str, missing: int, first: int, last: int) -> str:
    were = f"{many(missing, 'step')} between {first} and {last} {'was' if missing == 1 else 'were'}"
    return f"{rank}: {were} not seen"


def unwatched(hosts: Sequence[str], seconds: float, times: int) -> str:
    """In short what `gap` says of each."""
    often = f" in {times} stretches" if times > 1 else ""
    return f"{listed(hosts, 2)} not watched for {duration(seconds)}{often}"


def silent(hosts: Sequence[str], seconds: float) -> str:
    """seconds: since the first of them fell silent, as far as the job went on."""
    return f"{listed(hosts, 2)} silent for {duration(seconds)}: agent stopped, or cut off from the server"


def unseen(ranks: Sequence[str], steps: int) -> str:
    """In short what `missing_steps` says of each rank."""
    return f"{many(steps, 'step')} of {listed(ranks, 2)} not seen"


def clock_error(host: str, seconds: float, step: float) -> str:
    """step: the shortest median step of a rank, s."""
    return (
        f"clock of {host} is known only to {seconds * 1e3:.2f} ms, {seconds / step:.0%} of a median step: "
        "steps across nodes are blurred"
    )


# -- ranks --------------------------------------------------------------------------------------------------


def restarted(ranks: Sequence[str], times: int) -> str:
    return f"{listed(ranks)}: started again {_often(times)}; the numbers are of all processes"


def _often(times: int) -> str:
    return "once" if times == 1 else many(times, "time")


_APART = "give each training its own --job, or each process its own --rank"


def claimed(ranks: Sequence[str]) -> str:
    """In short what follows."""
    return (
        f"several processes claim to be {listed(ranks, 2)} at once: perhaps two trainings share a job id "
        "(--full)"
    )


def claimed_here(rank: str, host: str, who: str) -> str:
    """who: the processes, and as which ranks they are shown."""
    return (
        f"several processes of {host} claim to be {rank} at the same time ({who}): they are kept "
        f"apart. Perhaps two trainings share a job id, or nothing tells the processes their ranks; {_APART}"
    )


def claimed_on_nodes(rank: str, who: Sequence[str]) -> str:
    """who: "pid 10 on node1" of each process."""
    return (
        f"{len(who)} processes on different nodes claim to be {rank} at the same time "
        f"({listed(who)}): their steps and counters are mixed in this report. Perhaps two trainings "
        f"share a job id, or nothing tells the processes their ranks; {_APART}"
    )


def ranks_unseen(count: int, world: int, role: str, ranks: Sequence[str]) -> str:
    """ranks: the first of those that were not seen."""
    verb = "was" if count == 1 else "were"
    return (
        f"{count} of {world} {role} ranks {verb} not seen ({listed(ranks)}): all numbers are of the others. "
        "Run roofline-agent on every node, where it sees each rank"
    )


def two_agents(hosts: Sequence[str]) -> str:
    """hosts: what they call their node."""
    where = hosts[0] if len(hosts) == 1 else f"one node ({listed(hosts)})"
    return (
        f"two agents run on {where} and report the same processes: those are taken as the agent reports them "
        "that has their steps; stop the other"
    )


def called_alike(host: str, shown: Sequence[str]) -> str:
    """shown: how each is called in a report."""
    return (
        f"{len(shown)} nodes are called {host} and are shown as {listed(shown)}: give each a host name of "
        "its own, as ceilings of the network and `bench net` go by names"
    )


def steps_from(ranks: Sequence[str], origin: str) -> str:
    return f"steps of {listed(ranks)} are from {origin}"


def trace_of(ranks: Sequence[str], state: str) -> str:
    """state: what the wrapper reports, "steps 100-102: recorded, 443 operators"."""
    return f"trace of {first_of(ranks)}: {state}"


def damaged(files: Mapping[str, int], job: str = "") -> str:
    """files: path -> rows. job: where an answer is about several."""
    names, count = first_of(sorted(files), 2), sum(files.values())
    of = f"job {job}" if job else "this job"
    missing = f"cannot be read and {'is' if count == 1 else 'are'} missing here"
    return f"{many(count, 'row')} of {of} {missing}: {names}, damaged or missing"


def removed(job: str, rows: int, moment: str, steps_too: bool) -> str:
    """moment: "2026-11-23 02:00:00 UTC", when retention removed them."""
    what = "the raw data and the step deltas" if steps_too else "the raw data"
    missing = (
        "the report was computed before that, and no other question can be answered"
        if steps_too
        else "the timeline, the export, single kernels, and ranks without steps are missing; steps are whole"
    )
    return f"retention removed {what} of job {job} ({many(rows, 'row')}) on {moment}: {missing}"


def removed_kept_whole(report: str) -> str:
    """report: `removed`."""
    return f"{report}. It covers all steady steps, whichever steps you ask for"


def cannot_answer(job: str, moment: str, what: str, left: str) -> str:
    """what: "raw data"; left: what can still be asked for."""
    return (
        f"retention removed the {what} of job {job} on {moment}, and this question needs them; {left}. "
        "To keep them longer start the server with --keep-days, --keep-gb or --keep-tagged"
    )


def heavy_step(step: int, share: float, ranks: Sequence[str]) -> str:
    """share: of the time of all steps."""
    return (
        f"step {step} took {share:.0%} of the time of all steps of {listed(ranks, 2)} and is included in all "
        "rates; exclude it with --steps"
    )


def slow_start(before: float, whole: float, last: str, behind: float) -> str:
    """Seconds: until the first step, of the job, and by how much a rank started behind the first one.
    last: that rank; "": none started late."""
    late = f"; {last} started {behind:.0f} s after the first rank" if last else ""
    return f"{before:.0f} s of {whole:.0f} s passed before the first step{late}"


def replayed(steps: str, ranks: Sequence[str]) -> str:
    return f"steps {steps} of {listed(ranks)}"


def ncu_replayed(steps: str) -> str:
    """steps: of `replayed`."""
    return (
        f"ncu replayed {steps}: FLOPs and bytes of a step are theirs, "
        "times and rates those of the other steps"
    )


def tag_differs(tag: str, ranks_of: Mapping[str, Sequence[str]], holds: str) -> str:
    """ranks_of: value of the tag -> the ranks that have it."""
    each = [f"{value!r} ({listed(ranks)})" for value, ranks in ranks_of.items()]
    return f"tag {tag} differs: {listed(each)}; {holds!r}, given last, is used"


# -- what agents could not keep -----------------------------------------------------------------------------


def left_out(ranks: Sequence[str], updates: int) -> str:
    """updates: by optimizers, of all these ranks."""
    count = many(updates, "optimizer update")
    return f"at least {count} of {listed(ranks, 2)} in no step: made in other threads than the training's"


def lost(what: str, count: int) -> str:
    return f"lost: {count} {what}"


def slowed(interval: str, hosts: Sequence[str], times: Sequence[str], more: int, why: str) -> str:
    """interval: "4 s"; times: "2026-11-27 12:00:00 to 12:05:00 UTC" of the first stretches;
    more: how many others."""
    return f"{listed(hosts)} sampled every {interval} {_from(times, more)}: {why}"


_HELD_BY: Mapping[str, str] = {
    "hw_thermal": "heat (hardware thermal slowdown)",
    "sw_thermal": "heat (software thermal slowdown)",
    "power_brake": "an external power brake",
    "hw_slowdown": "a hardware slowdown (heat or power)",
}


def held_clock(rank: str, gpu: str, shares: Mapping[str, float]) -> str:
    """shares: by what held its clock down, of the time."""
    reasons = [f"{_HELD_BY[reason]} for {share:.0%} of the time" for reason, share in shares.items()]
    return f"the clock of {gpu} of {rank} was held down by {' and by '.join(reasons)}"


def held_clocks(worst: str, more: int) -> str:
    """worst: of `held_clock`; more: other GPUs of which it is so."""
    others = f", those of {many(more, 'other GPU')} too" if more else ""
    what = "look at its cooling and power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
    return f"{worst}{others}: {what}"


def _from(times: Sequence[str], more: int) -> str:
    others = f" and {many(more, 'more time')}" if more else ""
    return f"from {', '.join(times)}{others}"


def fewer_kernels(factor: str, hosts: Sequence[str], times: Sequence[str], more: int, why: str) -> str:
    """factor: of how many times fewer steps kernels were recorded; the others as in `slowed`."""
    return f"{listed(hosts)} recorded kernels in {factor} times fewer steps {_from(times, more)}: {why}"


def held(seconds: str, hosts: Sequence[str], times: Sequence[str], more: int, why: str) -> str:
    """seconds: "4 s", for which data were gathered before they were sent; the others as in `slowed`."""
    whose = "its" if len(hosts) == 1 else "their"
    return f"{listed(hosts)} sent {whose} data only every {seconds} {_from(times, more)}: {why}"


def refused(what: str, count: int) -> str:
    return f"refused: {what} ({_often(count)})"


def source_failed(what: str) -> str:
    return f"source failed: {what}"


def caveat(host: str, source: str, why: str) -> str:
    """why: of the agent, "flops.f32.512 was 20 % too low by `roofline-agent validate` on ..."."""
    return f"{source} of {host} is doubtful, its values are marked as estimated: {why}"


def absent(ranks: Sequence[str], values: Sequence[str], why: str) -> str:
    return f"not measured for {listed(ranks)} ({', '.join(values)}), because {why}"
