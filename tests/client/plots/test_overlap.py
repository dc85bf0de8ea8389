"""No text lies on another, under a line or marker, or beyond the edge, in pictures of all kinds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from roofline.answers.roofline import Roofline, RoofPoint
from roofline.answers.time_roofline import TimeRoofline
from roofline.answers.trajectory import Path, Trajectory
from roofline_client import plots
from roofline_client.plots import roofs

from . import models, time_models
from .texts import faults, written

ROLES = ("worker", "ps", "chief", "horovod", "ddp", "evaluator", "somebody")
LONG = "convolution backward_weights jit:avx512_core 64x56x56x64 mb32"


def between(dice: random.Random, low: float, high: float) -> float:
    return low * (high / low) ** dice.random()


def some_point(dice: random.Random, hosts: list[str], **more: Any) -> RoofPoint:
    role = dice.choice(ROLES)
    label = LONG if dice.random() < 0.1 else f"{role}:{dice.randrange(64)}"
    intensity, flops = between(dice, 1e-2, 1e4), between(dice, 1e8, 1.2e12)
    found = models.point(label, intensity, flops, role=role, host=dice.choice(hosts))
    incomplete = "AMX FLOPs are not counted" if dice.random() < 0.2 else ""
    return found._replace(incomplete=incomplete, kind=dice.choice(("rank", "rank", "kernel")), **more)


def some_roofline(seed: int, kind: str) -> Roofline:
    dice = random.Random(seed)
    hosts = [f"{'node' * dice.randrange(1, 5)}{n}.cluster" for n in range(dice.choice((1, 1, 2, 3)))]
    roofs = [models.xeon_roof(host, between(dice, 0.05, 5), kind == "hierarchical") for host in hosts]
    if kind == "network":
        roofs = [models.network_roof(host) for host in hosts]
    points = [some_point(dice, hosts) for _ in range(dice.choice((1, 2, 5, 12, 40)))]
    if kind == "hierarchical":
        points = [
            p._replace(level=level, intensity=models.seen((p.intensity.value or 1) * factor, "FLOP/byte"))
            for p in points[:6]
            for level, factor in (("l1", 1), ("l2", 2.5), ("l3", 4), ("dram", 30))
        ]
    else:
        points = [p._replace(level="network" if kind == "network" else "dram") for p in points]
    crossings = [models.crossing(p.label) for p in points[:3]] if kind == "network" else []
    return models.roofline(points, roofs, kind, crossings=crossings, notes=[f"{LONG} " * 3])


def some_time(seed: int) -> TimeRoofline:
    dice = random.Random(seed)
    sweep = dice.random() < 0.3
    points = [
        time_models.time_point(
            "step" if sweep else (LONG if dice.random() < 0.3 else f"kernel {n}"),
            between(dice, 1e6, 1e13),
            between(dice, 1e5, 1e11),
            between(dice, 1e-5, 1),
            role=dice.choice(ROLES),
            at=str(2**n) if sweep else "",
        )
        for n in range(dice.choice((1, 3, 8, 30)))
    ]
    panels = [time_models.v100(points, host=f"node{n}") for n in range(dice.choice((1, 1, 2)))]
    return time_models.time_roofline(*panels)


def some_trajectory(seed: int) -> Trajectory:
    dice = random.Random(seed)
    paths = []
    for role in dice.sample(ROLES, dice.choice((1, 2, 3))):
        x, y, growth = between(dice, 1e-2, 1e2), between(dice, 1e8, 1e12), between(dice, 0.3, 1.1)
        stops = [
            models.stop(
                str(2**k),
                models.point(f"{role}:0", x * growth ** (k / 2), y * growth**k, role=role),
                None if seed % 5 == 0 else 100 * (2 * growth) ** k,
                None if seed % 7 == 0 else min(1.0, growth**k),
            )
            for k in range(dice.choice((1, 2, 6, 10)))
        ]
        paths.append(Path(role, stops, ""))
    return models.trajectory(*paths, over="nodes")


def some_record(kind: str, seed: int) -> Any:
    dice = random.Random(seed)
    if kind in ("roofline", "hierarchical", "network"):
        return some_roofline(seed, {"roofline": "classic"}.get(kind, kind))
    if kind == "time":
        return some_time(seed)
    if kind == "trajectory":
        return some_trajectory(seed)
    ranks = [f"{dice.choice(ROLES)}:{n}" for n in range(dice.choice((1, 2, 6, 20)))]
    if kind == "account":
        return models.account(ranks)
    if kind == "breakdown":
        subjects = [LONG, *ranks] if dice.random() < 0.3 else ranks
        return models.breakdown(*dict.fromkeys(subjects))
    if kind == "layers":
        return models.layers(*dict.fromkeys(ranks))
    first, count = dice.choice((0, 123456)), dice.choice((1, 2, 60, 700))
    return models.steps(
        *(models.rank_steps(r, range(first, first + count), between(dice, 1e-5, 200)) for r in ranks)
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize("kind", list(plots.KINDS))
def test_nothing_lies_on_a_text(kind: str, seed: int) -> None:
    figure = plots.figure(kind, some_record(kind, seed))
    assert written(figure)
    assert faults(figure) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["roofline", "hierarchical"])
def test_no_ceiling_is_without_its_name(kind: str, seed: int) -> None:
    """What finds no place at its line is in the caption."""
    record = some_record(kind, seed)
    figure = plots.figure(kind, record)
    whole = " ".join(" ".join(text.text for text in written(figure)).split())
    panels = [roof for roof in record.roofs if any(point.host == roof.host for point in record.points)]
    values = [line.label.split()[-2] for roof in panels for line in roofs.drawable(roof)]
    assert values and [value for value in values if value not in whole] == []
