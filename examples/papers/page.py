"""Writes docs/papers.md: for each claim of a paper their figure, ours, and whether they agree."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import jain2019
import javed2019
import lu2018
import wang2020
from figures import Picture
from judging import AGREES, DIFFERS, OPEN, Claim, Judged, judged
from points import NAMES, RATE, STEPS, Point
from predictions import Prediction, as_text
from readings import Readings

PAPERS = (javed2019, wang2020, jain2019, lu2018)
HEAD = """# The papers, run again

The experiments of four papers at the size of this machine, with roofline as the only instrument: `make
papers` runs them and writes this page and its pictures. No number is typed in by hand. Nodes are namespaces
of one machine (network, processes, mounts, host name), each with an address, an agent and a link of its own,
which is shaped to {rate} in each direction. Networks are AlexNet, VGG-16, ResNet-50 and Inception-v3 with
smaller images (`examples/papers/networks.py`); batches are an eighth of the papers'. A worker does few steps,
fewer where they take longer: {steps}; warm-up is left out.

So directions and ratios are judged, not absolute figures. There are {cpus} CPUs; ranks are pinned to them,
and where more ranks run than there are CPUs some share one, which is no scaling.

*How sure* tells how well it is known that the paper says so: some could be read in part only.

"""


class JobNumbers:
    """Jobs that claims rest on, numbered as they come."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def text(self, jobs: Sequence[str]) -> str:
        return ", ".join(str(n) for n in sorted(self.of.setdefault(job, len(self.of) + 1) for job in jobs))


def page(
    readings: Readings,
    network: dict[str, dict[str, float]],
    drawn: Sequence[Picture],
    predicted: Sequence[Prediction],
    not_run: Sequence[str],
) -> str:
    """Markdown. not_run: a line for each point that was not run, or failed, with the reason."""
    results = {
        paper: [(claim, judged(claim, readings, network)) for claim in paper.CLAIMS] for paper in PAPERS
    }
    every = [found for pairs in results.values() for _, found in pairs]
    numbers = JobNumbers()
    parts = [
        HEAD.format(rate=RATE, cpus=os.cpu_count(), steps=_steps()),
        _counts(every, len(readings.by_key)),
    ]
    for paper, pairs in results.items():
        parts.append(_of_paper(paper.TITLE, (paper.__doc__ or "").strip(), pairs, numbers))
    parts.append("## Pictures\n")
    parts += [f"{one.caption}\n\n![{one.caption}](papers/{one.name}.png)\n" for one in drawn]
    parts.append(as_text(predicted))
    parts.append(_jobs(readings, numbers))
    if not_run:
        parts.append("## Not run\n\n" + "\n".join(f"- {line}" for line in not_run) + "\n")
    return "\n".join(parts)


def _steps() -> str:
    return ", ".join(f"{count} of {NAMES[network]}" for network, count in STEPS.items())


def _counts(found: Sequence[Judged], jobs: int) -> str:
    count = Counter(one.verdict for one in found)
    closed = count[AGREES] + count[DIFFERS]
    text = f"**{closed} of {len(found)} claims are judged, by {jobs} jobs: {count[AGREES]} agree, "
    return f"{text}{count[DIFFERS]} differ.** {count[OPEN]} can't be judged here.\n"


def _of_paper(title: str, about: str, pairs: Sequence[tuple[Claim, Judged]], numbers: JobNumbers) -> str:
    lines = [f"## {title}\n", about.partition("\n\n")[2].strip() + "\n"]
    lines += ["| claim | where; how sure | theirs | ours [jobs] | |", "|---|---|---|---|---|"]
    for claim, found in pairs:
        verdict = found.verdict if found.verdict == AGREES else f"**{found.verdict}**"
        why = f": {found.why}" if found.why else ""
        jobs = f" [{numbers.text(found.jobs)}]" if found.jobs else ""
        cells = claim.text, f"{claim.where}; {claim.sure}", claim.theirs, found.ours + jobs, verdict + why
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _jobs(readings: Readings, numbers: JobNumbers) -> str:
    said = {one.job: one.verdict for one in readings.by_key.values()}
    lines = ["## Jobs\n", "| | job | first line of its report |", "|---|---|---|"]
    lines += [f"| {number} | `{job}` | {said.get(job) or '-'} |" for job, number in numbers.of.items()]
    return "\n".join(lines) + "\n"


def not_run(points: Sequence[Point], readings: Readings, why: dict[str, str]) -> list[str]:
    """One line for each point without a reading; program net has none."""
    missing = [p for p in points if p.program != "net" and p.key not in readings.by_key]
    return [f"`{p.key}`: {why.get(p.key) or 'not run'}" for p in missing]
