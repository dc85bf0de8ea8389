"""The ridge of a network roofline is the node's, as the server tells it."""

from __future__ import annotations

from roofline.answers.roofline import Crossing, Roofline
from roofline_client.plots import network

from ..reports import absent, seen
from . import models
from .texts import faults


def texts(*crossings: Crossing, device: str = "") -> list[str]:
    points = [models.point(level="network", intensity=190.0, device=device)]
    roofs = [models.network_roof()._replace(device=device)]
    record: Roofline = models.roofline(points, roofs, "network", crossings=list(crossings))
    made = network.figure(record)
    return [text.get_text() for axis in made.axes for text in axis.texts]


def test_ridge_is_that_of_all_devices_of_the_node() -> None:
    found = texts(models.crossing()._replace(ridge=seen(2500.0, "FLOP/byte", "estimated")), device="gpu 0")
    assert any("ridge of the node 2500.0 FLOP/byte" in text for text in found)


def test_no_ridge_rather_than_one_of_a_single_device() -> None:
    unknown = models.crossing()._replace(ridge=absent("FLOP/byte"))
    other = models.crossing()._replace(ridge=seen(9.0, "FLOP/byte"))
    elsewhere = models.crossing("ps:0")
    for crossings in ([], [unknown], [models.crossing(), other], [elsewhere]):
        assert not any("ridge" in text for text in texts(*crossings))


def test_ranks_on_one_spot_have_one_arrow_with_the_range_of_their_batches() -> None:
    points = [models.point(f"ddp:{k}", 190.0 + k, level="network") for k in range(16)]
    crossings = [models.crossing(p.label, at=188.0 + k) for k, p in enumerate(points)]
    record = models.roofline(points, [models.network_roof()], "network", crossings=crossings)
    figure = network.figure(record)
    assert faults(figure) == []
    labels = [t.get_text() for t in figure.axes[0].texts if t.get_text().startswith("at batch")]
    assert labels == ["at batch 188 to 203"]
