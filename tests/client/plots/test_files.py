"""Pictures as files: of every kind and format, text kept as text, errors that say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from roofline.answers.about import MachineAbout
from roofline.answers.breakdown import Breakdown
from roofline.answers.time_roofline import TimeRoofline
from roofline.answers.trajectory import Trajectory
from roofline_client import ClientError, plots
from roofline_client.plots import AccountOf, Steps, style

from .. import chunks
from ..reports import report, roof
from ..verdicts import account, unknown
from . import models, time_models

ROOT = Path(__file__).parents[3]
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-", ".PNG": b"\x89PNG"}
LEVELS = (("l1", 0.9), ("l2", 2.1), ("dram", 14.0))


def plain(kind: str) -> Any:
    """A small answer with a worker and a parameter server."""
    both = [models.point("worker:0"), models.point("ps:0", 0.4, 6e9)]
    if kind == "roofline":
        return models.roofline(both, [models.xeon_roof()])
    if kind == "hierarchical":
        points = [
            p._replace(level=level, intensity=models.seen(x, "FLOP/byte"))
            for p in both
            for level, x in LEVELS
        ]
        return models.roofline(points, [models.xeon_roof(hierarchical=True)], kind)
    if kind == "network":
        points = [p._replace(level="network") for p in both]
        return models.roofline(points, [models.network_roof()], kind, crossings=[models.crossing()])
    if kind == "time":
        points = [
            time_models.time_point(role="worker"),
            time_models.time_point("send", 1e9, 2e9, 0.01, role="ps"),
        ]
        return time_models.time_roofline(time_models.v100(points))
    if kind == "trajectory":
        return models.vgg16()
    if kind == "breakdown":
        return models.breakdown("worker", "ps")
    if kind == "layers":
        return models.layers("worker:0", "ps:0")
    if kind == "account":
        return models.account()
    return models.steps(
        models.rank_steps("worker:0", range(20)), models.rank_steps("ps:0", range(20), phases=False)
    )


@pytest.mark.parametrize("suffix", list(MAGIC))
def test_file_is_what_its_name_says(tmp_path: Path, suffix: str) -> None:
    plots.draw("breakdown", models.breakdown(kinds=["time"]), tmp_path / f"x{suffix}")
    assert (tmp_path / f"x{suffix}").read_bytes().startswith(MAGIC[suffix])


IN_EVERY_CAPTION = [
    "Xeon(R) Gold 6126",
    "2025-10-09",
    "clocks within 25 us",
    "shortest median step 65.2 ms",
    "42",
]
TEXTS = {
    "account": ["worker:0", "ps:0", "contention", "40%", "ps:1 stalls the workers", "ceilings were measured"],
    "roofline": [
        "DRAM triad 128.0 GB/s",
        "FP32 512-bit theoretical 1.31 TFLOP/s",
        "worker:0",
        "ps:0",
        "analytic",
    ],
    "hierarchical": ["L1 read", "over L2 traffic", "worker:0"],
    "network": ["gRPC to node2", "at batch 188", "ridge 1037.8 FLOP/byte", "hides its communication"],
    "time": ["machine balance 129.7 FLOP/byte", "1 launch", "1,234 launches without FLOPs", "100 ms", "f16"],
    "trajectory": ["worker 1", "32", "Scaling efficiency", "ideal scaling", "vgg16", "horovod keeps 82 %"],
    "breakdown": ["52.1%", "512-bit", "762.9 MiB", "convolution backward data", "the rest", "ps"],
    "layers": ["ResNet/layer1/0/conv1", "(collective)", "58.3%", "layers are those of 3 steps"],
    "steps": ["worker:0", "communicate", "Step time (ms)", "phases not seen"],
}


@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_text_stays_text(tmp_path: Path, kind: str) -> None:
    record = plain(kind)
    plots.draw(kind, record, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    jobs = IN_EVERY_CAPTION[:-1] if kind == "trajectory" else IN_EVERY_CAPTION
    # Lines of the caption are texts of their own: what is looked for may be broken.
    joined = " ".join(text.replace("</text>", " ").split())
    assert [words for words in [*jobs, *TEXTS[kind]] if not _contains(joined, words)] == []


def test_ranks_for_which_there_is_no_bar_are_counted_without_those_that_have_no_steps(tmp_path: Path) -> None:
    ranks = [f"worker:{number}" for number in range(18)]
    record = models.account(ranks)
    accounts = [*record.report.verdict.accounts, account("ps:0", None)]  # type: ignore[union-attr]
    verdict = record.report.verdict._replace(accounts=accounts)  # type: ignore[union-attr]
    plots.draw("account", record._replace(report=record.report._replace(verdict=verdict)), tmp_path / "x.svg")
    assert "2 more ranks are not drawn." in (tmp_path / "x.svg").read_text()


def _contains(markup: str, words: str) -> bool:
    return all(word in markup for word in words.split())


@pytest.mark.slow
def test_fonts_are_embedded(tmp_path: Path) -> None:
    plots.draw("roofline", plain("roofline"), tmp_path / "x.pdf")
    assert b"/Type0" in (tmp_path / "x.pdf").read_bytes()  # TrueType, never Type 3
    assert b"/Type3" not in (tmp_path / "x.pdf").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", plots.FORMATS)
def test_the_same_picture_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        plots.draw("time", plain("time"), tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("a", "b"))
    assert first == second
    # Written in another second it would differ by these.
    assert b"CreationDate" not in first and b"<dc:date>" not in first


def test_whoever_saves_a_figure_gets_text(tmp_path: Path) -> None:
    plots.figure("breakdown", models.breakdown(kinds=["time"])).savefig(tmp_path / "x.svg")
    assert ">forward</text>" in (tmp_path / "x.svg").read_text()


@pytest.mark.slow
def test_what_others_set_in_matplotlib_stays(tmp_path: Path) -> None:
    """A notebook that draws a report keeps its backend and its own figures."""
    code = (
        "import sys, matplotlib; matplotlib.use('svg'); before = dict(matplotlib.rcParams);"
        "from pathlib import Path; from tests.client.plots.test_files import plain;"
        "from roofline_client import plots;"
        f"plots.draw('breakdown', plain('breakdown'), Path({str(tmp_path / 'x.png')!r}));"
        "assert dict(matplotlib.rcParams) == before; assert 'matplotlib.pyplot' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_matplotlib_is_loaded_when_something_is_drawn() -> None:
    code = (
        "import sys, roofline_client.plots as p; p.FORMATS; p.KINDS; assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["x", "x.bmp", "x.png.txt", ".png"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClientError, match=r"\.png, \.svg, \.pdf"):
        plots.draw("roofline", plain("roofline"), tmp_path / name)


def test_kind_that_is_none() -> None:
    with pytest.raises(ClientError, match="'pie'; there are account, roofline, hierarchical"):
        plots.figure("pie", None)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"cannot write .*nowhere"):
        plots.draw("breakdown", models.breakdown(kinds=["time"]), tmp_path / "nowhere" / "x.png")


NOTHING = {
    "account": AccountOf(report(verdict=unknown(), notes=["no PMU"])),
    "roofline": models.roofline([models.no_point()]),
    "hierarchical": models.roofline(notes=["no level was counted: no PMU here"]),
    "network": models.roofline([models.no_point(reason="no PMU")], [], "network"),
    "time": TimeRoofline(models.about(), [], ["no kernels: run with --ncu.", "no PMU"]),
    "trajectory": Trajectory(models.about(), "nodes", [], [], ["no job has the tag nodes: no PMU"]),
    "breakdown": Breakdown(models.about(), [], ["no PMU"]),
    "layers": Breakdown(models.about(), [], ["no PMU"]),
    "steps": Steps("42", [chunks.chunk("steps", {"rank": []}, ["no PMU"])]),
}


@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_nothing_to_draw_says_what_is_missing(tmp_path: Path, kind: str) -> None:
    why = r"no step was traced .*\)$" if kind == "layers" else ".*no PMU"
    with pytest.raises(ClientError, match=f"nothing to draw: {why}"):
        plots.draw(kind, NOTHING[kind], tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_windows_of_time_are_no_steps(tmp_path: Path) -> None:
    columns = {"rank": ["w:0"], "window_of": ["time"], "step": [0], "begin_ns": [0], "duration_ns": [10**9]}
    record = Steps("42", [chunks.chunk("steps", columns, ["no steps of w:0"])])
    with pytest.raises(ClientError, match="nothing to draw: job 42 has no steps: no steps of w:0"):
        plots.draw("steps", record, tmp_path / "x.png")


@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_a_role_has_its_colour_everywhere(kind: str) -> None:
    figure = plots.figure(kind, plain(kind))
    figure.draw_without_rendering()
    found = colours(figure)
    assert {style.colour("worker"), style.colour("ps")} <= found
    assert not found & {style.colour(role) for role in ("chief", "ddp", "evaluator")}


def colours(figure: Figure) -> set[str]:
    """Of lines, markers and texts of the panels."""
    found = set()
    for axis in figure.axes:
        for line in axis.lines:
            found |= {to_hex(line.get_color()).upper(), _face(line)}
        texts = [*axis.texts, axis.title, axis._left_title, *axis.get_yticklabels()]  # type: ignore[attr-defined]
        found |= {to_hex(text.get_color()).upper() for text in texts if text.get_text()}
        found |= {to_hex(t.get_color()).upper() for t in axis.findobj(lambda a: hasattr(a, "get_fontsize"))}
    return found


def _face(line: Line2D) -> str:
    return "" if line.get_marker() in (None, "None", "") else to_hex(line.get_markerfacecolor()).upper()


def test_no_part_has_the_colour_of_a_role() -> None:
    parts = {*style.PARTS.values(), *style.MORE_PARTS, *style.SHADES}
    assert not parts & {colour for colour, _ in style.ROLES.values()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_callers_axes(kind: str) -> None:
    own = plots.figure(kind, plain(kind)).axes
    count = 1 if kind == "trajectory" else len(own)
    figure = Figure(figsize=(5, 4 * count))
    axes = list(figure.subplots(count, 1, squeeze=False).flat)
    plots.draw_on(axes if count > 1 else axes[0], kind, plain(kind))
    figure.draw_without_rendering()
    assert all(axis.has_data() for axis in axes)
    with pytest.raises(ClientError, match=rf"needs {count} Axes \(one for .*\), not 9; give as many"):
        plots.draw_on([axes[0]] * 9, kind, plain(kind))


@pytest.mark.parametrize("wrong", ["x", 3, ["x"], [None]])
def test_what_is_no_axes(wrong: Any) -> None:
    with pytest.raises(ClientError, match=r"is no matplotlib Axes; give 1 Axes \(one for the plane\)"):
        plots.draw_on(wrong, "trajectory", plain("trajectory"))


def test_axes_as_subplots_makes_them() -> None:
    axes = Figure(figsize=(9, 9)).subplots(2, 2)
    plots.draw_on(axes, "breakdown", models.breakdown())
    assert all(axis.has_data() for axis in axes.flat)


def test_letters_on_axes_of_the_caller_are_explained_in_the_legend() -> None:
    name = "convolution backward_data of a long name"
    points = [time_models.time_point(name, 4e10 * n, 2e8 * n, 1e-2 * n, at=f"{n}") for n in (1, 8)]
    axis = Figure(figsize=(8, 6)).subplots()
    plots.draw_on(axis, "time", time_models.time_roofline(time_models.v100(points), over="batch"))
    entries = [text.get_text() for text in axis.get_legend().texts]
    assert any(entry.startswith("A ") and "backward_data" in entry for entry in entries), entries


def test_small_axes_of_the_caller_have_no_legend() -> None:
    small, large = (Figure(figsize=(side, 0.8 * side)).subplots() for side in (2.5, 8))
    for axis in (small, large):
        plots.draw_on(axis, "roofline", plain("roofline"))
    assert small.get_legend() is None and large.get_legend() is not None


@pytest.mark.parametrize("kind", ["breakdown", "steps"])
def test_legend_on_axes_of_the_caller_covers_no_bar(kind: str) -> None:
    record = models.breakdown(kinds=["time"]) if kind == "breakdown" else models.steps()
    figure = Figure(figsize=(6, 3))
    axis = figure.subplots()
    plots.draw_on(axis, kind, record)
    figure.draw_without_rendering()
    legend, place = axis.get_legend().get_window_extent(), axis.get_window_extent()
    assert legend.y0 >= place.y1
    assert axis._left_title.get_window_extent().y0 >= legend.y1  # type: ignore[attr-defined]


def test_roofline_in_a_file_names_lines_ranks_machine_and_alignment(tmp_path: Path) -> None:
    points = [models.point("worker:0"), models.point("ps:0", flops=1e9)]
    machine = MachineAbout("node1", "a made-up CPU", 8, 1)
    record = models.roofline(points, [roof()])._replace(about=models.about(machines=[machine]))
    plots.draw("roofline", record, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert all(
        words in text for words in ("DRAM triad 40.0 GB/s", "worker:0", "ps:0", "a made-up CPU", "25 us")
    )
