"""Which ranks compute on a GPU: by processes and namespaces, without contexts opened by a slip."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.sources.gpu_users import users_of, without_strays
from roofline_agent.sources.nvml_device import Gpu

from .fake_nvml import FakeGpu, FakeNvml, Pid, process, rank


def test_rank_in_another_pid_namespace_is_known_by_its_other_number(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, 7007)
    assert users_of({7007: 5}, [rank(10)], tmp_path) == {rank(10): 5}
    process(tmp_path, 7007)  # a process of its own here: the number says who it is
    assert users_of({7007: 5}, [rank(10)], tmp_path) == {}


@pytest.mark.parametrize(
    ("on_the_first", "on_its_own"), [(8, 30), (None, 30), (1, None)], ids=["much", "unknown", "unknown own"]
)
def test_what_may_be_work_on_a_shared_gpu_makes_its_user(
    on_the_first: int | None, on_its_own: int | None
) -> None:
    first, second = rank(10), rank(20, 1)
    found = without_strays({"gpu 0": {first: 30, second: on_the_first}, "gpu 1": {second: on_its_own}})
    assert found == {"gpu 0": {first, second}, "gpu 1": {second}}


def test_without_a_gpu_of_its_own_a_rank_uses_what_it_shares() -> None:
    first, second = rank(10), rank(20, 1)
    assert without_strays({"gpu 0": {first: 30, second: 1}}) == {"gpu 0": {first, second}}


def test_parts_of_a_gpu_and_processes_of_a_rank_add_up(tmp_path: Path) -> None:
    process(tmp_path, 10)
    process(tmp_path, 11, parent=10)
    gpu = FakeGpu(nvmlDeviceGetComputeRunningProcesses=[Pid(10, 3), Pid(10, 4)])
    held = Gpu(FakeNvml(gpu), 0).held()
    assert held == {10: 7}
    assert users_of(held | {11: 1}, [rank(10)], tmp_path) == {rank(10): 8}
    assert users_of(held | {11: None}, [rank(10)], tmp_path) == {rank(10): None}
