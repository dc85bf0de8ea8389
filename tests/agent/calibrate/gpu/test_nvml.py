"""Which GPU a library means, by the number that the agent's samples have."""

from __future__ import annotations

import re

import pytest
from roofline_agent.calibrate.gpu.bench.nvml import Facts, PartOfGpu, index_of

UUIDS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")


class Driver:
    """Three GPUs."""

    def __init__(self, mig: int | None = None, uuids: tuple[str, ...] = UUIDS) -> None:
        self._mig, self._uuids = mig, uuids

    def count(self) -> int:
        return len(UUIDS)

    def facts(self, index: int) -> Facts:
        return Facts(index, "made up", self._uuids[index], None, None, None, None, None, index == self._mig)


@pytest.mark.parametrize(
    ("uuid", "visible", "expected"),
    [
        ("bbbb", "", 1),  # as CUDA writes it
        ("GPU-CCCC", "0", 2),  # the UUID is sure
        ("", "2,0", 2),
        ("", "GPU-bbbb,GPU-aaaa", 1),
        ("", "GPU-c", 2),  # the begin of a UUID is enough
        ("", "GPU-dddd", 0),
        ("", "", 0),
    ],
)
def test_number_of_the_first_device(uuid: str, visible: str, expected: int) -> None:
    assert index_of(Driver(), 0, uuid, {"CUDA_VISIBLE_DEVICES": visible}) == expected  # type: ignore[arg-type]


def test_without_a_driver_the_library_counts() -> None:
    assert index_of(None, 3, "aaaa", {}) == 3
    assert index_of(None, 1, "", {"CUDA_VISIBLE_DEVICES": "4, 6"}) == 6


@pytest.mark.parametrize(
    ("uuid", "visible", "reason"),
    [
        ("MIG-1234", "", "its UUID is MIG-1234"),
        ("", "MIG-GPU-aaaa/1/0", "CUDA_VISIBLE_DEVICES names MIG-GPU-aaaa/1/0"),
        # CUDA's first call for UUIDs gives the whole GPU's.
        ("aaaa", "MIG-1234", "CUDA_VISIBLE_DEVICES names MIG-1234"),
        ("cccc", "", "MIG is on for GPU 2"),
        ("", "2", "MIG is on for GPU 2"),
        ("dddd", "1", "its UUID dddd is that of no GPU"),
    ],
)
def test_part_of_a_gpu_never_passes_for_the_whole(uuid: str, visible: str, reason: str) -> None:
    with pytest.raises(PartOfGpu, match=re.escape(reason)):
        index_of(Driver(mig=2), 0, uuid, {"CUDA_VISIBLE_DEVICES": visible})  # type: ignore[arg-type]


def test_uuids_that_nvml_does_not_tell_say_nothing_of_parts() -> None:
    assert index_of(Driver(uuids=("", "", "")), 1, "dddd", {}) == 1  # type: ignore[arg-type]
