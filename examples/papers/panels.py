"""Pictures that the product draws, a panel each: trajectories, and planes of complexity and time.

What was not run is not drawn; None: nothing was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from points import NAMES, NETWORKS, SWEPT
from readings import Readings
from roofline_client import Client

FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow"}


def trajectories(
    experiment: str,
    role: str,
    over: str,
    stops: Sequence[dict[str, object]],
    names: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """A panel for each network: its role over jobs that differ in one tag. names: for its values."""

    def draw(client: Client, readings: Readings, _network: object) -> Any:
        wanted = {
            n: _jobs(readings, experiment, [{**stop, "network": n} for stop in stops]) for n in NETWORKS
        }
        wanted = {n: jobs for n, jobs in wanted.items() if len(jobs) > 1}
        if not wanted:
            return None
        rows = (len(wanted) + 1) // 2
        figure, axes = plt.subplots(rows, 2, figsize=(13, 5 * rows), layout="constrained", squeeze=False)
        for ax, (network, jobs) in zip(axes.flat, wanted.items(), strict=False):
            client.experiment(jobs=jobs).trajectory(over=over, roles=[role]).plot(ax=ax)
            ax.set_title(NAMES[network], loc="left")
            for text in [text for one in (ax, *ax.child_axes) for text in one.texts]:
                value = text.get_text().removeprefix(f"{role} ")
                text.set_text((names or {}).get(value, text.get_text()))
        _one_legend(figure, axes.flat)
        return _without_rest(figure, axes.flat[len(wanted) :])

    return draw


def planes(layer: str) -> Callable[..., Any]:
    """Complexity and time: a row for each framework, two columns of parameters."""

    def draw(client: Client, readings: Readings, _network: object) -> Any:
        panels = [(framework, name) for framework in ("torch", "tensorflow") for name in SWEPT[layer]]
        rows = (len(panels) + 1) // 2
        figure, axes = plt.subplots(rows, 2, figsize=(13, 5.5 * rows), layout="constrained", squeeze=False)
        drawn = 0
        for ax, (framework, name) in zip(axes.flat, panels, strict=True):
            stops = [{"framework": framework, "layer": layer, name: size} for size in SWEPT[layer][name]]
            jobs = _jobs(readings, f"{layer}-{name}", stops)
            if not jobs:
                ax.set_axis_off()
                continue
            client.experiment(jobs=jobs).time_roofline(over=name).plot(ax=[ax])
            sizes = ", ".join(map(str, SWEPT[layer][name]))
            ax.set_title(f"{FRAMEWORKS[framework]}: {name} {sizes}", loc="left")
            for text in ax.texts:  # of which job is in the title
                text.set_text(re.sub(r"launches \(.*", "launches a step", text.get_text()))
            drawn += 1
        _one_legend(figure, axes.flat)
        return figure if drawn else None

    return draw


def _one_legend(figure: Any, axes: Iterable[Any]) -> None:
    """What panels have in common is below all of them; a panel keeps its key to letters."""
    common: dict[str, Any] = {}
    for ax in axes:
        legend = ax.get_legend()
        if legend is None:
            continue
        entries = [
            (text.get_text(), one) for text, one in zip(legend.texts, legend.legend_handles, strict=True)
        ]
        key = [(label, one) for label, one in entries if _is_blank(one)]
        common |= {label: one for label, one in entries if (label, one) not in key}
        legend.remove()
        if key:
            labels, handles = zip(*key, strict=True)
            size = {"handlelength": 0, "handletextpad": 0, "fontsize": 7}
            ax.legend(handles, labels, loc="lower right", frameon=False, **size)
    if common:
        figure.legend(common.values(), common.keys(), loc="outside lower center", ncols=3, frameon=False)


def _is_blank(handle: Any) -> bool:
    """Of an entry of a legend that only explains a letter."""
    return isinstance(handle, Line2D) and {handle.get_linestyle(), str(handle.get_marker())} == {"None"}


def _jobs(readings: Readings, experiment: str, stops: Sequence[dict[str, object]]) -> list[str]:
    found = [readings.find(experiment, **stop) for stop in stops]
    return [one.job for one in found if one is not None]


def _without_rest(figure: Any, rest: Sequence[Any]) -> Any:
    for ax in rest:
        ax.set_axis_off()
    return figure
