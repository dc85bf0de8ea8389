"""The pictures of docs/papers in the papers' form: the product's own where there are any (panels.py), else
bars (bars.py).

What was not run is not drawn; a picture of which nothing was run is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from bars import cycles, layers, links, payloads, processes, threads, throughput, traced, widths, work
from panels import planes, trajectories
from points import BASE, BATCHES
from readings import Readings
from roofline_client import Client, connect

DPI = 110


class Picture(NamedTuple):
    """What it shows, of which paper, and what draws it on a figure; it returns whether there was anything."""

    name: str
    caption: str
    draw: Callable[[Client, Readings, dict[str, dict[str, float]]], Any]


def draw_all(
    server: str, readings: Readings, network: dict[str, dict[str, float]], folder: Path
) -> list[Picture]:
    """Writes each picture to FOLDER/NAME.png; returns those that were drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with connect(server) as client:
        for picture in PICTURES:
            figure = picture.draw(client, readings, network)
            if figure is None:
                continue
            figure.savefig(folder / f"{picture.name}.png", dpi=DPI)
            plt.close(figure)
            drawn.append(picture)
    return drawn


WORKERS = [{"ps": 1, "workers": n, **BASE} for n in (1, 2, 4)]
ONEDNN = [{"ps": 1, "workers": 1, "batch": 16, "onednn": x} for x in (0, 1)]
RANKS = [{"workers": n, **BASE} for n in (1, 2, 4)]
PICTURES = (
    Picture(
        "ps-roofline",
        "Javed, figure 5: parameter servers over workers, by the optimizer's rule",
        trajectories("ps", "ps", "workers", WORKERS),
    ),
    Picture(
        "worker-roofline",
        "Javed, figure 6: workers over their number",
        trajectories("ps", "worker", "workers", WORKERS),
    ),
    Picture("throughput", "Javed, figure 7: throughput", throughput),
    Picture(
        "horovod-roofline",
        "Javed, figure 8: Horovod's ranks over their number",
        trajectories("horovod", "horovod", "workers", RANKS),
    ),
    Picture("work", "Javed, figures 9 and 14: work and memory accesses", work),
    Picture("widths", "Javed, figures 10 and 15: FLOPs by precision and vector width", widths),
    Picture(
        "onednn",
        "Javed, figures 11 to 13: without and with oneDNN, one worker",
        trajectories("ps", "worker", "onednn", ONEDNN, {"0": "oneDNN off", "1": "on"}),
    ),
    Picture(
        "batch",
        "Javed, figures 16 and 17: batch size, two workers",
        trajectories(
            "ps", "worker", "batch", [{"ps": 1, "workers": 2, "batch": x, "onednn": 1} for x in BATCHES]
        ),
    ),
    Picture("time-conv2d", "Wang, Conv2D: complexity and time", planes("conv2d")),
    Picture("time-lstm", "Wang, LSTM: complexity and time", planes("lstm")),
    Picture("processes", "Jain: processes on a node", processes),
    Picture("threads", "Jain: threads of one process", threads),
    Picture("cycles", "Jain: allreduces asked for and made", cycles),
    Picture("payloads", "Biswas: payloads of parameter servers", payloads),
    Picture("links", "Biswas: gRPC over shaped links", links),
    Picture("layers", "Lu: layers of a step", layers),
    Picture("traced", "Lu: layers of traced steps", traced),
)
