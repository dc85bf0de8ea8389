"""A rank reports whether a Horovod timeline is read."""

from __future__ import annotations

import pytest

from ..site import HOROVOD, Site, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "none: give `roofline-agent run --horovod-timeline` to all ranks"),
        ({"ROOFLINE_HOROVOD_TIMELINE_READ": "1"}, "read at rank 0"),
        ({"HOROVOD_TIMELINE": "/nowhere/timeline.json", "HOROVOD_RANK": "1"}, ""),
    ],
    ids=["none", "read", "of another rank"],
)
def test_rank_reports_whether_its_timeline_is_read(
    horovod: Site, environ: dict[str, str], words: str
) -> None:
    said = run(horovod, HOROVOD, **environ)
    assert said.facts.get("horovod.timeline", "").startswith(words)
    assert bool(words) == ("horovod.timeline" in said.facts)
