"""The caption of a figure: job, machines, time, alignment of clocks, and what is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from itertools import groupby
from typing import NamedTuple

from roofline.answers.about import About, MachineAbout

from ..tables import units
from ..tables.names import clean
from . import kernels
from .label_placement import shortened

MOST_NAMES = 4
LONGEST_NOTE = 160
LONGEST_COMMAND = 100
_CLAUSE_ENDS = re.compile(r"[;.,)](?=\s)|\s(?=\()")  # where a sentence can end early


# Whether the figure that is being made says below it of which job it is, and what is missing. Every kind of
# plot makes its caption by `of`, deep inside: what is asked of the whole figure is not handed through all.
_WANTED = ContextVar("caption wanted", default=True)


@contextmanager
def wanted(whether: bool) -> Iterator[None]:
    """Figures that are made in the block have a caption, or only the key to numbers and letters in them."""
    before = _WANTED.set(whether)
    try:
        yield
    finally:
        _WANTED.reset(before)


class Caption(NamedTuple):
    """The paragraphs below a figure; of the notes as many as there is room for."""

    about: list[str]
    key: list[str]  # meaning of the numbers in the figure
    notes: list[str]
    command: str = ""  # shows all notes


def of(
    about: About | None,
    *notes: Iterable[str],
    always: Sequence[str] = (),
    key: Sequence[str] = (),
    command: str = "",
) -> Caption:
    """notes: the most important first; repetitions are removed. always: what no figure may hide."""
    if not _WANTED.get():
        return Caption([], ["; ".join(key) + "."] if key else [], list(always))
    readable = (kernels.plain(clean(note)).strip() for some in (always, *notes) for note in some)
    different = dict.fromkeys(note for note in readable if note)
    keys = ["; ".join(key) + "."] if key else []
    return Caption(_about(about), keys, [cut(note) for note in different], command)


def more(count: int, command: str) -> str:
    """Replaces the notes for which there is no room."""
    where = f"`{command}` shows {'them' if count > 1 else 'it'}" if command else "see the report"
    return f"{count} more note{'s' if count > 1 else ''}: {where}."


def command(name: str, about: About | None, **options: str) -> str:
    """The command that shows the same as text. Options without a value are left out, too many jobs also."""
    if about is None:
        return ""
    if about.experiment and len(about.jobs) > 1:
        which = [("experiment", about.experiment)]
    else:
        which = [("job", job) for job in about.jobs]
    words = [f"roofline-client {name}"]
    for option, value in (*which, *options.items()):
        if value:
            words.append(f"--{option} {shlex.quote(clean(value))}")
    whole = " ".join(words)
    return whole if len(whole) <= LONGEST_COMMAND else words[0]


def title(what: str, about: About | None, where: str = "") -> str:
    """ "Roofline of job 42 on node1"."""
    jobs = [clean(job) for job in about.jobs] if about else []
    subject = f"experiment {clean(about.experiment)}" if about and about.experiment else _jobs(jobs)
    place = f" on {clean(where)}" if where else ""
    return f"{what} of {subject}{place}" if subject else f"{what}{place}"


def joined(sentences: Sequence[str]) -> str:
    """As one sentence: "no PMU here; vm has no ceilings: run ..."."""
    return "; ".join(clean(one).strip().removesuffix(".") for one in sentences if one.strip())


def cut(prose: str, longest: int = LONGEST_NOTE) -> str:
    """A long text cut at the end of a clause, else of a word; brackets are closed."""
    if len(prose) <= longest:
        return prose
    ends = [found.start() for found in _CLAUSE_ENDS.finditer(prose, longest // 2, longest)]
    kept = prose[: ends[-1]] if ends else prose[: longest - 1]
    if not ends and not prose[longest - 1].isspace():
        kept = kept.rpartition(" ")[0] or kept
    kept = kept.rstrip(" ,;:.(")
    return f"{kept}…{')' * (kept.count('(') - kept.count(')'))}"


def _about(about: About | None) -> list[str]:
    if about is None:
        return []
    jobs = _jobs([clean(job) for job in about.jobs])
    parts = [jobs[:1].upper() + jobs[1:], *_machines(about.machines)]
    if about.begin_ns:
        begin, end = _moment(about.begin_ns), _moment(about.end_ns or about.begin_ns)
        if begin[:10] == end[:10]:  # the same day
            end = end[11:]
        parts.append(f"ran {begin} UTC" if begin.endswith(end) else f"ran {begin} to {end} UTC")
    if about.alignment.value is None:
        why = clean(about.alignment.reason) or "the server gives no reason"
        parts.append(f"alignment of the clocks unknown ({cut(why, 80)})")
    else:
        against = f", shortest median step {units.show(about.step_time)}" if about.step_time.value else ""
        parts.append(f"clocks within {units.show(about.alignment)}{against}")
    parts.append(", ".join(f"{clean(k)}={clean(v)}" for k, v in about.tags.items()))
    return [" · ".join(part for part in parts if part)]


def _jobs(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    return f"job {shortened(jobs[0])}" if len(jobs) == 1 else f"jobs {_listed(jobs)}"


def _listed(names: Sequence[str]) -> str:
    """ "a, b, c and 13 more"."""
    shown = [shortened(name) for name in names[:MOST_NAMES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _machines(machines: Sequence[MachineAbout]) -> list[str]:
    """Nodes with the same CPUs together, and the days of their calibrations."""
    if not machines:
        return []
    texts = []
    for (model, cpus), group in groupby(sorted(machines, key=_kind), key=_kind):
        hosts = _listed([clean(m.host) for m in sorted(group, key=lambda m: m.host)])
        count = f", {cpus} CPU{'s' if cpus != 1 else ''}" if cpus else ""
        what = f"{clean(model) or 'a CPU not named'}{count}"
        texts.append(f"{hosts}: {what}" if hosts else what)

    days = sorted({_moment(m.calibrated_ns)[:10] for m in machines if m.calibrated_ns})
    without = [clean(m.host) for m in machines if not m.calibrated_ns]
    if not days:
        texts.append("ceilings never measured")
    else:
        span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        texts.append(f"ceilings of {span}" + (f" (none of {_listed(without)})" if without else ""))
    return texts


def _kind(machine: MachineAbout) -> tuple[str, int]:
    return machine.cpu_model, machine.cpus


def _moment(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M")
