"""Which GPU a library means, by the number that the agent's samples have."""

from __future__ import annotations

import pytest
from roofline_agent.calibrate.gpu.bench.nvml import Facts, index_of

UUIDS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")


class Driver:
    """Three GPUs."""

    def count(self) -> int:
        return len(UUIDS)

    def facts(self, index: int) -> Facts:
        return Facts(index, "made up", UUIDS[index], None, None, None, None, None)


@pytest.mark.parametrize(
    ("uuid", "visible", "expected"),
    [
        ("bbbb", "", 1),  # as CUDA writes it
        ("GPU-CCCC", "0", 2),  # the UUID is sure
        ("", "2,0", 2),
        ("dddd", "1", 1),  # a part of a GPU (MIG) has one of its own
        ("", "GPU-bbbb", 0),
        ("", "", 0),
    ],
)
def test_number_of_the_first_device(uuid: str, visible: str, expected: int) -> None:
    assert index_of(Driver(), 0, uuid, {"CUDA_VISIBLE_DEVICES": visible}) == expected  # type: ignore[arg-type]


def test_without_a_driver_the_library_counts() -> None:
    assert index_of(None, 3, "aaaa", {}) == 3
    assert index_of(None, 1, "", {"CUDA_VISIBLE_DEVICES": "4, 6"}) == 6
