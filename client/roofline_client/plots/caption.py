"""What stands under a picture: which job, on which machines, when, how well clocks agree, what is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from itertools import groupby
from typing import NamedTuple

from ..model_records import About, MachineAbout
from ..tables import units
from ..tables.names import clean
from . import kernels
from .label_placement import shortened

MOST_NAMES = 4
LONGEST_NOTE = 160
LONGEST_COMMAND = 100
_CLAUSE_ENDS = re.compile(r"[;.,)](?=\s)|\s(?=\()")  # where a sentence can end early


class Caption(NamedTuple):
    """The paragraphs under a picture, and what is said as far as there is room."""

    about: list[str]
    key: list[str]  # what numbers in the picture stand for
    notes: list[str]
    command: str = ""  # which shows all notes


def of(about: About | None, *notes: Iterable[str], key: Sequence[str] = (), command: str = "") -> Caption:
    """Notes come the most important first; each is said once."""
    said = (kernels.plain(clean(note)).strip() for some in notes for note in some)
    told = dict.fromkeys(note for note in said if note)
    keys = ["; ".join(key) + "."] if key else []
    return Caption(_about(about), keys, [cut(note) for note in told], command)


def more(count: int, command: str) -> str:
    """What stands in place of notes for which there is no room; command: that shows them."""
    where = f"`{command}` shows {'them' if count > 1 else 'it'}" if command else "see the report"
    return f"{count} more note{'s' if count > 1 else ''}: {where}."


def command(name: str, about: About | None, **options: str) -> str:
    """The command that tells of the same in words. Options without a value are left out; so are jobs too
    many to be named."""
    if about is None:
        return ""
    jobs = [("experiment", about.experiment)] if about.experiment and len(about.jobs) > 1 else []
    whose = jobs or [("job", job) for job in about.jobs]
    words = [f"roofline-client {name}"]
    said = [(option, value) for option, value in (*whose, *options.items()) if value]
    words += [f"--{option} {shlex.quote(clean(value))}" for option, value in said]
    told = " ".join(words)
    return told if len(told) <= LONGEST_COMMAND else words[0]


def title(what: str, about: About | None, where: str = "") -> str:
    """ "Roofline of job 42 on node1"."""
    jobs = [clean(job) for job in about.jobs] if about else []
    whose = f"experiment {clean(about.experiment)}" if about and about.experiment else _jobs(jobs)
    place = f" on {clean(where)}" if where else ""
    return f"{what} of {whose}{place}" if whose else f"{what}{place}"


def joined(said: Sequence[str]) -> str:
    """Sentences as one: "no PMU here; vm has no ceilings: run ..."."""
    return "; ".join(clean(one).strip().removesuffix(".") for one in said if one.strip())


def cut(prose: str, longest: int = LONGEST_NOTE) -> str:
    """A long text without its end, cut where a clause ends, else at a word; brackets are closed."""
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
    said = [jobs[:1].upper() + jobs[1:], *_machines(about.machines), _when(about), _clocks(about)]
    said += [", ".join(f"{clean(k)}={clean(v)}" for k, v in about.tags.items())]
    return [" · ".join(part for part in said if part)]


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
    """Nodes of one kind together."""
    ordered = sorted(machines, key=_kind)
    told = []
    for (model, cpus), group in groupby(ordered, key=_kind):
        hosts = _listed([clean(m.host) for m in sorted(group, key=lambda m: m.host)])
        count = f", {cpus} CPU{'s' if cpus != 1 else ''}" if cpus else ""
        what = f"{clean(model) or 'a CPU not named'}{count}"
        told.append(f"{hosts}: {what}" if hosts else what)
    return [*told, *_calibrated(machines)]


def _kind(machine: MachineAbout) -> tuple[str, int]:
    return machine.cpu_model, machine.cpus


def _calibrated(machines: Sequence[MachineAbout]) -> list[str]:
    if not machines:
        return []
    days = sorted({_day(m.calibrated_ns) for m in machines if m.calibrated_ns})
    without = [clean(m.host) for m in machines if not m.calibrated_ns]
    if not days:
        return ["ceilings never measured"]
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return [f"ceilings of {span}" + (f" (none of {_listed(without)})" if without else "")]


def _when(about: About) -> str:
    if not about.begin_ns:
        return ""
    begin, end = _moment(about.begin_ns), _moment(about.end_ns or about.begin_ns)
    if begin[:10] == end[:10]:
        end = end[11:]
    return f"ran {begin} UTC" if begin.endswith(end) else f"ran {begin} to {end} UTC"


def _clocks(about: About) -> str:
    if about.alignment.value is None:
        why = clean(about.alignment.reason) or "nothing was heard of it"
        return f"alignment of the clocks unknown ({cut(why, 80)})"
    against = f", shortest median step {units.show(about.step_time)}"
    return f"clocks within {units.show(about.alignment)}" + (against if about.step_time.value else "")


def _day(ns: int) -> str:
    return _moment(ns)[:10]


def _moment(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M")
