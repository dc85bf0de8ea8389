"""Where each role lies under its roof, in a line."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.answers.roofline import RoofPoint

from ...sentences import verdict as texts
from ...sentences.rooflines import no_ceilings_of_host
from ...sentences.wording import title
from ..roofline.groups import PointGroup


def places_under_roof(points: Iterable[tuple[PointGroup, RoofPoint]]) -> list[str]:
    """points: of roles, as `rooflines.of_roles` gives them. Of ranks that share a place their part counts."""
    found = []
    for group, point in points:
        if point.headroom.value is None or point.intensity.value is None:
            why = point.headroom.reason or no_ceilings_of_host(point.host)
            found.append(texts.no_place_under_roof(point.label, why))
            continue
        ceiling = group.limits[0].binding(point.intensity.value, point.level)
        side = ceiling.kind if ceiling is not None else ""
        share = 1 / point.headroom.value
        found.append(texts.under_roof(point.label, share, group.parts, title(point.precision), side))
    return found
