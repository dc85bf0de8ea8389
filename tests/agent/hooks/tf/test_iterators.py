"""How many examples an iterator yields, on made-up iterators."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from roofline_agent.hooks.tf.iterators import yielded_by


def iterator(size: int | None, *devices: str) -> SimpleNamespace:
    """Of one worker, for these devices; () where it is of no strategy."""
    made = SimpleNamespace(element_spec=(SimpleNamespace(shape=(size, 8)), SimpleNamespace(shape=(size,))))
    if devices:
        made._devices = devices
    return made


@pytest.mark.parametrize(
    ("iterators", "examples"),
    [
        ([iterator(32)], 32),
        ([iterator(32, "cpu:0")], 32),
        ([iterator(32, "cpu:0", "cpu:1")], 64),
        ([iterator(32, "cpu:0", "cpu:1"), iterator(32, "cpu:0")], 96),
        ([iterator(None, "cpu:0", "cpu:1")], None),
    ],
)
def test_distributed_iterator_yields_a_batch_for_each_replica(
    iterators: list[SimpleNamespace], examples: int | None
) -> None:
    assert yielded_by(SimpleNamespace(_iterators=iterators)) == examples


def test_plain_iterator_yields_what_its_spec_says() -> None:
    assert yielded_by(iterator(32)) == 32
