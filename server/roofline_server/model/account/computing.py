"""What a rank did while it neither fetched input nor was held: kernels, the host, and waits for a CPU."""

from __future__ import annotations

import numpy as np

from ...records import Bools, Floats
from ..columns import (
    Differ,
    alone,
    known_mean,
    less,
    mean_of,
    or_zero,
    ratio,
    same,
    share_of,
    smooth,
    smoothed_steps,
    spread_by,
)
from .ledger import ESTIMATED, MEASURED, UNSEEN, Ledger
from .signals import RankSignals

COMPUTING_ELSEWHERE = 0.5  # of a step: from here on other threads than the main one do the computing
HARDLY = 0.05  # of its time a thread is blocked: it is not looked for what blocks it
FAR = 4.0  # times as long as the longest step that was measured: what such a one did may be another matter
MOST_KNOWN = 0.5  # of the time of its steps that a sum over threads must be known of to speak for all

# -- by its main thread -------------------------------------------------------------------------------------


def by_main_thread(ledger: Ledger, signals: RankSignals, measured: Bools) -> None:
    """What is neither input nor held, by what the main thread and the kernels did."""
    run = less(signals.run, signals.input_run, signals.held_run)
    delay = less(signals.delay, signals.input_delay, signals.held_delay)
    if signals.on_gpu and signals.kernels is not None:
        _beside_gpu(ledger, signals, run, delay, measured)
        return
    ledger.take("other", _unlike_measured(signals, ledger.left, measured), ESTIMATED)
    rest = ledger.left
    origin = MEASURED if same(measured.all(axis=-1)) else ESTIMATED
    run, delay = _like_measured(rest, run, delay, measured)
    run, delay = _no_more_than_all_threads(signals, run, delay, measured)
    run = np.minimum(run, rest)
    delay = np.minimum(delay, rest - run)
    # Where no hook sees input it is part of what the main thread does.
    host = "host" if signals.input is not None else "input|host"
    if signals.kernels is None:
        run, delay = _elsewhere(signals, rest, run, delay)
        ledger.take("compute|host" if signals.input is not None else "input|compute|host", run, origin)
        ledger.take("contention", delay, origin)
    else:
        lacking = share_of(delay, run + delay)
        inside, clean = _kernels(signals, rest, np.maximum(lacking, _lacking_of_others(signals)))
        if signals.kernel_threads == 1:  # it is in kernels only while it runs, or would
            most = _share_within(inside, run + delay)
            inside, clean = inside * most, clean * most
        besides = np.maximum(0.0, run + delay - inside)
        ledger.take("compute", clean, MEASURED if signals.traced is None else ESTIMATED)
        ledger.take("contention", inside - clean + besides * lacking, origin)
        ledger.take(host, besides * (1 - lacking), origin)
    if signals.kernels is not None and signals.kernel_threads is None:
        _in_pools(ledger, signals, inside, run, clean)
    if signals.held is not None:
        ledger.take(UNSEEN, np.where(np.isnan(signals.held), ledger.left, 0.0), ESTIMATED)
    ledger.take("blocked" if signals.input is not None else "input|blocked", ledger.left.copy(), origin)
    if signals.gc is not None:
        source = next((name for name in ledger.parts if "host" in name.split("|")), host)
        ledger.move(source, "gc", spread_by(ledger.parts.get(source, rest), signals.gc))


def _beside_gpu(ledger: Ledger, signals: RankSignals, run: Floats, delay: Floats, measured: Bools) -> None:
    """What the host did while the GPU was idle, which is all that is left of the steps.

    The main thread also runs while the GPU is busy: it prepares what comes next, or spins until the GPU is
    done. So how long it ran, waited for a CPU or was blocked with an idle GPU is known within bounds only,
    and what may be the one or the other is a part of both names. Other threads of the process, as PyTorch's
    that runs a backward pass, are the host too.
    """
    idle = ledger.left
    own = np.maximum(less(signals.duration, signals.held, signals.input), idle)
    run, delay = _like_measured(own, run, delay, measured)
    run, delay = _no_more_than_all_threads(signals, run, delay, measured)
    run = np.minimum(run, own)
    delay = np.minimum(delay, own - run)
    if (others := _others(signals)) is not None:
        run = run + np.minimum(own - run - delay, others[0])
    off = own - run - delay
    overlapped = own - idle
    host, blocked = ("host", "blocked") if signals.input is not None else ("input|host", "input|blocked")
    ledger.take(host, run - overlapped, ESTIMATED)
    ledger.take("contention", delay - overlapped, ESTIMATED)
    ledger.take(blocked, off - overlapped, ESTIMATED)
    either = f"{host}|blocked" if same(off.mean(axis=-1) > HARDLY * own.mean(axis=-1)) else host
    ledger.take(either, ledger.left.copy(), ESTIMATED)
    if signals.gc is not None:
        ledger.move(host, "gc", spread_by(ledger.parts[host], signals.gc))


def _like_measured(rest: Floats, run: Floats, delay: Floats, measured: Bools) -> tuple[Floats, Floats]:
    """Run and delay of all steps, where they were measured of some: a step that is longer has more of what
    longer steps among the measured ones have more of (their regressions on the length add up to it)."""
    if same(measured.all(axis=-1)):
        return run, delay
    alone(rest)
    lasting = rest[measured]
    off = np.maximum(0.0, lasting - run[measured] - delay[measured])
    known = [np.minimum(run[measured], lasting), np.minimum(delay[measured], lasting), off]
    centred = lasting - lasting.mean()
    spread = float(centred @ centred)
    slopes = [max(0.0, float(centred @ part)) / spread if spread > 0 else 0.0 for part in known]
    scale = sum(slopes) or 1.0
    longer = rest - lasting.mean()
    filled = [
        np.maximum(0.0, part.mean() + slope / scale * longer)
        for part, slope in zip(known, slopes, strict=True)
    ]
    factor = ratio(rest, filled[0] + filled[1] + filled[2])
    return np.where(measured, run, filled[0] * factor), np.where(measured, delay, filled[1] * factor)


def _unlike_measured(signals: RankSignals, rest: Floats, measured: Bools) -> Floats:
    """Time of steps beyond the longest that were measured, where these are far longer and their threads were
    not counted: a pause before the first sample may be anything."""
    if same(measured.all(axis=-1)):
        return np.zeros_like(rest)
    alone(rest)
    longest = float(rest[measured].max())
    run, delay = signals.threads_run, signals.threads_delay
    told = measured if run is None or delay is None else measured | ~np.isnan(run + delay)
    beyond: Floats = np.where(~told & (rest > FAR * longest), rest - longest, 0.0)
    return beyond


def _no_more_than_all_threads(
    signals: RankSignals, run: Floats, delay: Floats, measured: Bools
) -> tuple[Floats, Floats]:
    """Run and delay of all steps, bounded where they follow from other steps: one thread ran and waited for a
    CPU no longer than all threads together, which are counted all the time. Steps much longer than those that
    were measured, as with a pause, may be another matter."""
    if same(measured.all(axis=-1)) or signals.threads_run is None or signals.threads_delay is None:
        return run, delay
    steps = smoothed_steps(signals.duration)
    bounded = []
    for part, most in ((run, signals.threads_run), (delay, signals.threads_delay)):
        known = ~np.isnan(most)
        whole, least = (smooth(np.where(known, column, 0.0), steps) for column in (most, part))
        share = np.where(least > whole, ratio(whole, least), 1.0)
        bounded.append(np.where(measured | ~known, part, part * share))
    return bounded[0], bounded[1]


def _elsewhere(signals: RankSignals, rest: Floats, run: Floats, delay: Floats) -> tuple[Floats, Floats]:
    """On a CPU and waiting for one, where other threads compute while the main one is blocked, as in JAX."""
    others = _others(signals)
    if others is None or not _compute_elsewhere(signals, others[0], rest):
        return run, delay
    active = np.minimum(rest - run - delay, others[0] + others[1])
    lacking = share_of(others[1], others[0] + others[1])
    return run + active * (1 - lacking), delay + active * lacking


def _compute_elsewhere(signals: RankSignals, run: Floats, rest: Floats) -> bool:
    """Threads of communication run too, while the main one is held: only much more than these do computes.
    run: of the other threads."""
    most = np.maximum(rest.mean(axis=-1), signals.duration.mean(axis=-1) / 2)
    return same(run.mean(axis=-1) >= COMPUTING_ELSEWHERE * most)


def _in_pools(ledger: Ledger, signals: RankSignals, inside: Floats, run: Floats, clean: Floats) -> None:
    """What other threads computed while the main one was blocked, beyond the kernels that were seen. inside:
    time in these, clean: of it that on a CPU; run: of the main thread, which may have run for too short to
    have computed them.

    TensorFlow computes in pools of threads while its main thread waits, and kernels that no library reports
    (Eigen's) are seen in their CPU time only. All CPUs of the rank at once need the least time for it, one
    thread after the other the most. What others do while the rank is held may be the communication.
    """
    others = _others(signals)
    if others is None:
        return
    elsewhere = same(run.mean(axis=-1) < COMPUTING_ELSEWHERE * clean.mean(axis=-1))
    if not (elsewhere or _compute_elsewhere(signals, others[0], inside)):
        return
    held = np.zeros_like(inside) if signals.held is None else signals.held
    if signals.held is not None and np.count_nonzero(np.isnan(held)):
        alone(held)
        usual = known_mean(signals.held)
        unseen = ledger.left if usual is None else usual
        held = np.where(np.isnan(signals.held), unseen, signals.held)
    active = np.maximum(0.0, others[0] + others[1] - held)
    lacking = share_of(others[1], others[0] + others[1])
    part = "compute|host" if signals.input is not None else "input|compute|host"
    at_once = max(1.0, signals.cores) if signals.cores else np.inf
    surely = np.minimum(ledger.left, np.maximum(0.0, active / at_once - inside))
    ledger.take("contention", surely * lacking, ESTIMATED)
    ledger.take(part, surely * (1 - lacking), ESTIMATED)
    ledger.take(f"{part}|blocked", active - inside - surely, ESTIMATED)


def _others(signals: RankSignals) -> tuple[Floats, Floats] | None:
    """What the other threads ran and waited for a CPU in a step, means over SMOOTH_S: sums over threads are
    read a few times a second, so of one step their difference to the main thread is mostly noise."""
    if signals.threads_run is None or signals.threads_delay is None:
        return None
    run, delay = signals.threads_run - signals.run, signals.threads_delay - signals.delay  # type: ignore[operator]
    known = ~(np.isnan(run) | np.isnan(delay))
    if not same(known.any(axis=-1)):
        return None
    steps = smoothed_steps(signals.duration)
    count = smooth(known.astype(np.float64), steps)
    means = [ratio(smooth(np.where(known, column, 0.0), steps), count) for column in (run, delay)]
    return np.maximum(0.0, means[0]), np.maximum(0.0, means[1])


def _kernels(signals: RankSignals, rest: Floats, lacking: Floats) -> tuple[Floats, Floats]:
    """Time in kernels, and of it that on a CPU. lacking: the share of it in which they lacked one.

    The kernels of a sampled step were stretched as CPUs were lacking in that step, not in this one.
    """
    kernels = or_zero(signals.kernels)  # type: ignore[arg-type]
    traced: Bools = kernels > 0 if signals.traced is None else signals.traced & (kernels > 0)
    clean = kernels * (1 - lacking)
    if not same(traced.all(axis=-1)):
        alone(kernels)
        lasting = kernels[traced].sum()
        if lasting > 0:
            usual = float(clean[traced].sum() / lasting)
            clean = np.where(traced, clean, kernels * usual)
    inside = np.minimum(rest, clean / (1 - lacking))
    return inside, np.minimum(clean, inside * (1 - lacking))


def _share_within(seconds: Floats, most: Floats) -> Floats:
    """By what to multiply a time so that it is no more than another."""
    found: Floats = np.where(seconds > most, ratio(most, seconds), 1.0)
    return found


def _lacking_of_others(signals: RankSignals) -> Floats:
    """Share of the time in which the other threads that compute lacked a CPU: a kernel is as late as its
    slowest thread. 0 where the main thread computes alone."""
    others = _others(signals) if signals.kernel_threads != 1 else None
    if others is None or same(others[0].mean(axis=-1) < COMPUTING_ELSEWHERE * _mean_kernels(signals)):
        return np.zeros_like(signals.duration)  # what little the others do is communication
    return share_of(others[1], others[0] + others[1])


def _mean_kernels(signals: RankSignals) -> Floats:
    """Seconds a step, of a rank or of each of several."""
    if signals.duration.ndim == 1:
        return np.array(mean_of(signals.kernels))
    means: Floats = np.mean(signals.kernels, axis=-1)  # type: ignore[arg-type]
    if np.count_nonzero(np.isnan(means)):
        raise Differ
    return means


# -- by all its threads -------------------------------------------------------------------------------------


def by_threads(ledger: Ledger, signals: RankSignals) -> None:
    """What is neither input nor held, without a main thread that tells: sums over all threads, and
    kernels."""
    rest = ledger.left.copy()
    idle = "wait_ps" if signals.waits_for_servers else "host|blocked"
    if signals.input is None:
        idle = "input|" + idle
    if signals.threads_run is None or signals.threads_delay is None:
        if signals.kernels is not None and not signals.on_gpu:
            ledger.take("compute|contention", signals.kernels)
        return
    run, delay = (_of_most(signals.duration, one) for one in (signals.threads_run, signals.threads_delay))
    known = ~(np.isnan(run) | np.isnan(delay))
    rest = np.where(known, rest, 0.0)
    active = or_zero(run + delay)
    lacking = share_of(or_zero(delay), active)
    if signals.kernels is None:
        busy = np.minimum(rest, active)
        ledger.take("compute|host", busy * (1 - lacking), ESTIMATED)
        ledger.take("contention", busy * lacking, ESTIMATED)
        ledger.take(idle if signals.waits_for_servers else "blocked", rest - busy, ESTIMATED)
        return
    if signals.on_gpu:
        besides = np.minimum(rest, active)  # the GPU is idle
    else:
        inside, clean = _kernels(signals, rest, _lacking_of_busiest(signals, lacking))
        ledger.take("compute", clean, ESTIMATED)
        ledger.take("contention", inside - clean, ESTIMATED)
        besides, lacking = _besides_kernels(signals, rest, inside, active, lacking)
    ledger.take("contention", besides * lacking, ESTIMATED)
    ledger.take("host" if signals.waits_for_servers else idle, besides * (1 - lacking), ESTIMATED)
    ledger.take(idle, np.where(known, ledger.left, 0.0), ESTIMATED)


def _lacking_of_busiest(signals: RankSignals, lacking: Floats) -> Floats:
    """Share of the time in which the thread that computes lacked a CPU: the busiest one, where it is known.
    Of the others many wake for a moment only, and wait for that."""
    if signals.busiest_run is None or signals.busiest_delay is None:
        return lacking
    run, delay = (spread_by(signals.duration, one) for one in (signals.busiest_run, signals.busiest_delay))
    steps = smoothed_steps(signals.duration)
    return share_of(smooth(delay, steps), smooth(run + delay, steps))


def _of_most(duration: Floats, part: Floats) -> Floats:
    """Spread over all steps, where it is known of most of the time: all threads are read every two seconds,
    and what passes between the last reading and the end of a rank is not known."""
    known = ~np.isnan(part)
    if known.all():
        return part
    alone(part)
    return spread_by(duration, part) if duration[known].sum() >= MOST_KNOWN * duration.sum() else part


def _besides_kernels(
    signals: RankSignals, rest: Floats, inside: Floats, active: Floats, lacking: Floats
) -> tuple[Floats, Floats]:
    """How long a rank was active outside of kernels, and the share of it that it lacked a CPU.

    Threads are active at the same time: the busiest one of them tells the least that it can have been, the
    sum over all of them (`active`) the most. The least is taken where it is known: what ranks wait for is not
    to be hidden behind threads that wait beside.
    """
    cores = max(1.0, signals.cores or 1.0)
    most: Floats = np.clip(
        active - cores * inside, 0.0, rest - inside
    )  # a kernel keeps that many threads busy
    if signals.busiest_run is None or signals.busiest_delay is None or signals.threads_run is None:
        return most, lacking
    busiest = signals.busiest_run + signals.busiest_delay
    known = ~np.isnan(busiest)
    least = np.maximum(or_zero(busiest), or_zero(signals.threads_run) / cores)
    besides = np.where(known, np.clip(least - inside, 0.0, most), most)
    return besides, np.where(known, share_of(or_zero(signals.busiest_delay), or_zero(busiest)), lacking)
