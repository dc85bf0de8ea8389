"""Where the steps of each rank go, the steady ones unless others are asked for: a bar a rank, its parts from
left to right."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount, Verdict

from ..errors import NothingToDraw
from ..tables import units, wording
from ..tables.names import clean
from . import AccountOf, caption, layout, legends, style
from .label_placement import shortened
from .scales import unit_for

MOST_BARS = 16
BAR, WIDTH = 0.3, 5.6  # inches
VISIBLE = 0.003  # share of the longest bar that is as wide as a line
TITLED, UNDER = 0.32, 0.5  # inches above and under the bars


def figure(record: AccountOf) -> Figure:
    """A bar a rank, worst first. Raises NothingToDraw for a job without steady steps."""
    verdict, shown, more = _shown(record)
    with layout.settings():
        left = 0.3 + max(layout.width_of(_name(one), style.TICK, "bold") for one in shown)
        title = layout.title_lines(_title(record, verdict), left + WIDTH - 0.2)
        top = layout.TOP + TITLED / 2 + (len(title) - 1) * layout.TITLE_LINE
        box = layout.Box(left, top, WIDTH, BAR * len(shown) + 0.1)
        made, (axis,) = layout.blank([box])
        handles = _draw(axis, shown, verdict, _which_steps(record.report))
        notes = [f"{more} more rank{'s are' if more > 1 else ' is'} not drawn."] if more else []
        shows_all = caption.command("report", record.about)
        under = caption.of(record.about, notes, verdict.quality, command=shows_all)
        layout.finish(made, [axis], [box], "\n".join(title), handles, under, below=UNDER)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: AccountOf) -> None:
    """Draw on this axes. Errors as of `figure`."""
    verdict, shown, _ = _shown(record)
    (given,) = layout.axes_list(axes, 1, "all ranks")
    with layout.settings():
        legends.on(given, _draw(given, shown, verdict, _which_steps(record.report)))


def _title(record: AccountOf, verdict: Verdict) -> str:
    return f"Job {shortened(clean(record.report.job))}: {caption.cut(clean(verdict.headline))}"


def _shown(record: AccountOf) -> tuple[Verdict, list[RankAccount], int]:
    """The verdict, the accounts that are drawn, and how many more there are."""
    verdict = record.report.verdict
    if verdict is None:
        raise NothingToDraw("nothing to draw: this server sends no accounts")
    shown = [one for one in verdict.accounts if one.parts and one.step.value]
    if not shown:
        why = "; ".join([verdict.headline, *record.report.notes[:2]])
        raise NothingToDraw(f"nothing to draw: {clean(why)}")
    return verdict, shown[:MOST_BARS], len(shown[MOST_BARS:])


def _which_steps(report: Report) -> str:
    """What the bars are the mean of; chosen steps need not be steady ones."""
    first, last = report.first_step, report.last_step
    if first is None and last is None:
        return "a steady step"
    if not first and last is None:
        return "all steps"
    if first == last:
        return f"step {first}"
    return f"steps {first or 0} to {'the last' if last is None else last}"


def _draw(axis: Axes, shown: Sequence[RankAccount], verdict: Verdict, steps: str) -> list[Artist]:
    """The entries of the legend: parts of which something is to be seen."""
    longest = max(one.step.value or 0.0 for one in shown)
    visible = VISIBLE * longest
    parts = [part.part for one in shown for part in one.parts if (part.time.value or 0.0) >= visible]
    seconds, unit = unit_for("s", longest)
    scale = 1 / seconds
    named = verdict.bottleneck.rank.split(", ") if verdict.bottleneck else []
    for row, one in enumerate(shown):
        begin = 0.0
        for part in one.parts:
            length = (part.time.value or 0.0) * scale
            axis.barh(
                row,
                length,
                0.72,
                begin,
                color=style.account_colour(part.part),
                edgecolor="white",
                linewidth=0.4,
            )
            _label(axis, begin, length, row, part.share, longest * scale, part.part)
            begin += length
    axis.set_yticks(range(len(shown)), [_name(one) for one in shown])
    for text, one in zip(axis.get_yticklabels(), shown, strict=True):
        text.set_color(style.colour(one.role))
        text.set_parse_math(False)
        text.set_fontweight("bold" if one.rank in named else "normal")
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlim(0, longest * scale * 1.02)
    axis.set_xlabel(f"Mean of {steps} ({unit})", fontsize=style.LABEL)
    axis.tick_params(labelsize=style.TICK)
    axis.spines[["top", "right"]].set_visible(False)
    return [
        Patch(facecolor=style.account_colour(part), label=wording.part(part)) for part in dict.fromkeys(parts)
    ]


def _label(
    axis: Axes, begin: float, length: float, row: int, share: Value, longest: float, part: str
) -> None:
    """The share of a part that has room for it."""
    if length < 0.07 * longest:
        return
    colour = style.ink_on(style.account_colour(part))
    axis.text(
        begin + length / 2,
        row,
        units.percent(share.value),
        ha="center",
        va="center",
        fontsize=style.SMALL,
        color=colour,
    )


def _name(account: RankAccount) -> str:
    return shortened(clean(account.rank), 26)
