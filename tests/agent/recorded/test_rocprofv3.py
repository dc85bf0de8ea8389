"""JSON of rocprofv3: cut off, with entries that lack something, larger than what is read at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from roofline_agent.recorded.traces import rocprofv3

from tests.recordings import OURS

from .traces import found_in, warned

TRACE = (OURS / "rocprofv3" / "kernel_trace.json").read_text()


def with_dispatches(dispatches: list[Any]) -> str:
    whole = json.loads(TRACE)
    whole["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = dispatches
    return json.dumps(whole)


def dispatches() -> list[Any]:
    found = json.loads(TRACE)["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("chunk", [40, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_found_depends_on_neither_form_nor_pieces(
    monkeypatch: pytest.MonkeyPatch, chunk: int, indent: int | None
) -> None:
    expected = found_in(TRACE, rocprofv3.read, True)
    for size in ("HEAD_BYTES", "CHUNK_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"roofline_agent.recorded.text.{size}", chunk)
    found = found_in(json.dumps(json.loads(TRACE), indent=indent), rocprofv3.read, True)
    assert list(found.launches or ()) == list(expected.launches or ())
    assert (found.phases, found.facts, found.warnings) == (expected.phases, expected.facts, [])


def test_many_dispatches_are_read_at_once() -> None:
    found = found_in(with_dispatches(dispatches() * 5000), rocprofv3.read)
    assert [one.launches for one in found.kernels] == [10_000, 5000] and found.warnings == []


def test_file_that_was_cut_off_gives_what_it_has() -> None:
    whole = with_dispatches(dispatches() * 20)
    last = whole.rindex('"dispatch_info"', 0, whole.index('"hip_api"'))
    found = found_in(whole[:last], rocprofv3.read)
    assert sum(one.launches for one in found.kernels) == 59 and warned(found, "cut off")
    ends_early = whole[: whole.index('"buffer_records": {"kernel_dispatch"')]
    assert warned(found_in(ends_early, rocprofv3.read), "cut off")


@pytest.mark.parametrize(
    "change",
    [
        {"end_timestamp": 1},
        {"start_timestamp": None},
        {"dispatch_info": {"kernel_id": 77}},
        {"dispatch_info": None},
    ],
)
def test_dispatch_that_lacks_something_is_left_out(change: dict[str, Any]) -> None:
    first, *others = dispatches()
    found = found_in(with_dispatches([first | change, *others]), rocprofv3.read)
    assert sum(one.launches for one in found.kernels) == 2
    assert warned(found, "buffer_records.kernel_dispatch is not as expected")


def test_start_is_that_of_the_first_dispatch_and_sizes_are_told() -> None:
    first, second, _ = list(found_in(TRACE, rocprofv3.read, True).launches or ())
    assert (first.start_s, second.start_s) == (0, pytest.approx(2e-5))
    assert first.problem == "grid 1048576, 1, 1 block 256, 1, 1"


def test_processes_of_one_file_have_names_of_their_own() -> None:
    whole = json.loads(TRACE)
    (one,) = whole["rocprofiler-sdk-tool"]
    other = json.loads(json.dumps(one).replace("daxpy(double*, int)", "dot(double*, int)"))
    found = found_in(json.dumps({"rocprofiler-sdk-tool": [one, other]}), rocprofv3.read)
    names = {one.name for one in found.kernels}
    assert names == {"daxpy(double*, int)", "dot(double*, int)", "fill(float*, int)"}
    assert found_in(json.dumps({"rocprofiler-sdk-tool": one}), rocprofv3.read).kernels
