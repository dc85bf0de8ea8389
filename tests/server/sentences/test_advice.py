"""The table of advice: each kind of cause has one, and each line holds only where its condition does."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_server.sentences.advice import SHOWN, advise
from roofline_server.sentences.advice_cases import Case
from roofline_server.sentences.advice_table import ADVICE
from roofline_server.sentences.verdict import _FINDINGS, PARTS

# What the brief of a report promises an answer to: what is known -> words of the first advice.
SITUATIONS: dict[str, tuple[Case, str]] = {
    "lone server": (Case("server_overloaded", servers=1, workers=4), "--ps 2"),
    "skewed server": (Case("server_skewed", servers=2, bytes_share=0.9), "partition the large ones"),
    "one server of several": (Case("server_overloaded", servers=3), "add one parameter server"),
    "server that does something else": (Case("server_work", ranks=("ps:1",)), "what else does ps:1 compute"),
    "slow server": (Case("server_slow", ranks=("ps:0",), host="n1"), "what else runs on node n1"),
    "server on a crowded node": (Case("server_slow", on_node=3), "keep workers off the CPUs"),
    "servers of unequal variables": (Case("server_skewed", servers=2), "split the largest variables"),
    "host code of torch": (Case("host", frameworks=frozenset({"torch"})), "py-spy record"),
    "host code of TensorFlow": (Case("host", frameworks=frozenset({"tensorflow"})), "py-spy record"),
    "network": (Case("network", hosts=2), "bench net"),
    "slow link": (Case("slow_link", ranks=("ddp:1",), host="n1", hosts=2), "look at the link of node n1"),
    "Horovod's cycle": (
        Case("transfer", frameworks=frozenset({"horovod"}), settings={"HOROVOD_CYCLE_TIME": "5"}),
        "HOROVOD_CYCLE_TIME=1",
    ),
    "Horovod's fusion": (
        Case("transfer", frameworks=frozenset({"horovod"}), settings={"HOROVOD_FUSION_THRESHOLD": "1048576"}),
        "HOROVOD_FUSION_THRESHOLD",
    ),
    "Horovod as it is, with PyTorch": (
        Case("transfer", frameworks=frozenset({"horovod", "torch"})),
        "HOROVOD_AUTOTUNE=1",
    ),
    "Horovod that tunes itself": (
        Case("transfer", frameworks=frozenset({"horovod"}), settings={"HOROVOD_AUTOTUNE": "1"}),
        "backward_passes_per_step",
    ),
    "ranks that were not seen": (Case("unseen_ranks", hosts=2), "roofline-agent on every node"),
    "DDP": (Case("transfer", frameworks=frozenset({"torch"})), "bucket_cap_mb"),
    "input of all, torch": (Case("input", frameworks=frozenset({"torch"})), "num_workers"),
    "input of all, TensorFlow": (Case("input", frameworks=frozenset({"tensorflow"})), "AUTOTUNE"),
    "input of one": (Case("input", ranks=("ddp:1",)), "what differs in the input of ddp:1"),
    "one rank evaluates": (Case("evaluates", ranks=("ddp:0",)), "have every rank evaluate its share"),
    "all evaluate": (Case("evaluation"), "in a job of its own"),
    "all evaluate, Keras": (Case("evaluation", frameworks=frozenset({"tensorflow"})), "validation_freq"),
    "all are without gradients": (Case("without_gradients", job="7"), "run it less often"),
    "all are between steps": (Case("between", job="7"), "timeline --job 7"),
    "all save": (Case("checkpoint"), "save less often"),
    "one rank saves": (Case("saves", ranks=("ddp:0",)), "save in the background"),
    "one rank does something": (Case("busy_alone", ranks=("ddp:0",), job="7"), "timeline --job 7"),
    "rank without hooks": (Case("unexplained", ranks=("ddp:1",)), "start all ranks by roofline-agent run"),
    "one rank of a job whose name has blanks": (
        Case("busy_alone", ranks=("ddp:0",), job="4 of x"),
        "timeline --job '4 of x' -o timeline.json.gz",
    ),
    "unbalanced batches": (Case("more_work", ranks=("ddp:1",)), "balance the batches"),
    "slow node": (Case("slower", ranks=("ddp:1",), hosts=2), "machines --compare"),
    "memory bandwidth": (Case("memory_bandwidth"), "numactl"),
    "more ranks than CPUs": (Case("contention", per_node=4, cpus=2, threads=1), "reserve CPUs"),
    "Python": (Case("host", ranks=("ddp:1",)), "does ddp:1 do something the others do not"),
    "idle GPU, torch": (
        Case("gpu_idle", frameworks=frozenset({"torch"}), on_gpu=True, gpu_busy=0.2),
        "reduce-overhead",
    ),
    "copies to a GPU": (
        Case("gpu_idle", frameworks=frozenset({"torch"}), on_gpu=True, gpu_busy=0.67, copied=1.4e9),
        "pin_memory=True",
    ),
    "idle GPU, JAX": (Case("gpu_idle", frameworks=frozenset({"jax"}), on_gpu=True), "jax.lax.scan"),
    "idle tensor cores": (
        Case("compute", frameworks=frozenset({"torch"}), on_gpu=True, tensor=0.08),
        "TF32",
    ),
    "GPUs in turns": (Case("compute", on_gpu=True, gpus=4, gpu_busy=0.25), "work in turns"),
    "GPU that is too hot": (
        Case("slower", ranks=("ddp:1",), on_gpu=True, held_clock="it is hot"),
        "nvidia-smi -q",
    ),
    "kernels of a GPU": (Case("compute", on_gpu=True, tensor=0.6), "--ncu"),
    "gc": (Case("gc"), "gc.freeze()"),
    "other processes": (
        Case("contention", host="n1", foreign=1.5),
        "move or end the other processes on node n1",
    ),
    "nobody knows who": (Case("contention_unknown", host="n1"), "look at what runs on node n1"),
    "bound to few CPUs": (Case("contention_bound", ranks=("ddp:1",)), "which CPUs may it use?"),
    "own threads": (Case("contention_own", per_node=2, threads=8, cpus=8), "OMP_NUM_THREADS=4"),
    "too many processes": (Case("contention_own", per_node=16, on_node=16, cpus=8), "fewer threads"),
    "cgroup": (Case("throttled"), "cpu.max"),
    "stopped": (Case("stopped", ranks=("ps:0",)), "find what stops ps:0"),
    "paging": (Case("paging", host="n1"), "free memory on node n1"),
    "disk": (Case("disk"), "local disk"),
    "blocked": (Case("blocked", ranks=("ddp:1",)), "py-spy dump"),
    "memory-bound kernels": (Case("compute", binding="memory"), "raise the intensity"),
    "narrow vectors": (Case("compute", narrow=0.8, widest=512), "512-bit vectors"),
    "small kernels": (Case("compute", kernel_s=8e-6), "larger kernels"),
    "too few threads": (Case("compute", threads=2, cpus=8), "use all CPUs: OMP_NUM_THREADS=8"),
    "at the roof": (Case("compute", of_roof=0.95), "cheaper precision"),
    "nothing else known": (Case("compute", job="7"), "plot --job 7 --points kernel"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_first_advice(name: str) -> None:
    case, words = SITUATIONS[name]
    assert words in advise(case).tries[0]


@pytest.mark.parametrize("kind", [*_FINDINGS, *(part for part in PARTS if part != "wait_ranks")])
def test_every_cause_and_part_has_an_advice_without_anything_else_known(kind: str) -> None:
    found = advise(Case(kind)).tries
    assert 1 <= len(found) <= SHOWN
    assert not any("{" in line or "None" in line for line in found)


def test_a_rank_all_phases_of_which_are_stretched_is_not_asked_what_it_alone_does() -> None:
    slower = Case("slower", ranks=("ddp:1",))
    assert any("do something the others do not" in line for line in advise(slower).tries)
    found = advise(slower._replace(stretched=True)).tries
    assert found and not any("do something the others do not" in line for line in found)


def test_merged_parts_have_the_advice_for_either() -> None:
    merged = {line for kind in ("input", "wait_ps") for line in _held(Case(kind))}
    found = advise(Case("input|wait_ps")).tries
    assert found and set(found) <= merged
    assert advise(Case("input|blocked")).tries[0] == _held(Case("input|blocked"))[0], "it has its own"


def test_a_merged_part_has_no_advice_that_rests_on_what_was_not_seen() -> None:
    hidden = [*advise(Case("compute|host")).tries, *advise(Case("compute|contention")).tries]
    assert not any("reserve CPUs" in line or "--points kernel" in line for line in hidden)
    assert any("--points kernel" in line for line in advise(Case("compute|contention", kernel_s=1e-3)).tries)


def test_every_advice_is_given_in_some_situation() -> None:
    given = {line for case, _ in SITUATIONS.values() for line in _held(case)}
    assert {one.tries for one in ADVICE} - given == set()


def _held(case: Case) -> list[str]:
    return [one.tries for one in ADVICE if case.kind in one.kinds and one.holds(case)]


def test_evidence_has_the_numbers_it_rests_on() -> None:
    crowded = advise(Case("contention_own", per_node=2, threads=8, cpus=8))
    assert crowded.evidence[0] == "2 ranks of 8 threads each on 8 CPUs"
    alone = advise(Case("server_overloaded", servers=1, workers=4))
    assert alone.evidence == ["it is the only parameter server, for 4 workers"]
    one = advise(Case("compute", threads=1, cpus=8))
    assert one.evidence == ["CPUs are idle: 1 rank of 1 thread on a node of 8 CPUs"]
    assert advise(Case("server_overloaded", servers=1, workers=1)).evidence == [
        "it is the only parameter server, for 1 worker"
    ]
    skewed = advise(Case("server_skewed", servers=2, bytes_share=0.9))
    assert skewed.evidence == ["it gets 90% of the bytes, an even part would be 50%"]


@pytest.mark.parametrize(
    ("settings", "evidence"),
    [
        ({}, ["a cycle takes 1 ms, the fusion buffer has 128 MiB: the defaults of Horovod 0.28"]),
        ({"HOROVOD_CYCLE_TIME": "0.5"}, ["a cycle takes 0.5 ms, the fusion buffer has 128 MiB"]),
        ({"HOROVOD_CYCLE_TIME": "5"}, ["a cycle takes 5 ms"]),
        ({"HOROVOD_CYCLE_TIME": "x"}, []),
    ],
)
def test_what_horovod_does_is_said_also_where_nothing_is_set(settings: dict[str, str], evidence: str) -> None:
    case = Case("transfer", frameworks=frozenset({"horovod"}), settings=settings)
    assert advise(case).evidence == evidence


@pytest.mark.parametrize(
    ("case", "not_said"),
    [
        (Case("contention_own", per_node=2, threads=2, cpus=8), "one thread per CPU over all ranks"),
        (Case("server_overloaded", servers=2, bytes_share=0.5), "evenly"),
        (Case("contention", foreign=0.0), "move or end"),
        (Case("compute", binding="compute"), "raise the intensity"),
        (Case("compute", narrow=0.1, widest=512), "vectors"),
        (Case("compute", threads=2, cpus=8, on_gpu=True), "use all CPUs"),
        (Case("compute", kernel_s=1e-3), "larger kernels"),
        (Case("transfer", frameworks=frozenset({"torch"}), settings={"HOROVOD_CYCLE_TIME": "5"}), "CYCLE"),
        (Case("transfer", frameworks=frozenset({"torch"})), "HOROVOD"),
        (Case("transfer", frameworks=frozenset({"horovod", "torch"})), "bucket_cap_mb"),
        (Case("transfer", frameworks=frozenset({"horovod"}), settings={"HOROVOD_CYCLE_TIME": "x"}), "CYCLE"),
    ],
)
def test_advice_that_does_not_hold_is_not_given(case: Case, not_said: str) -> None:
    assert not any(not_said in line for line in advise(case).tries)


def test_every_line_has_a_source() -> None:
    def short(one: Any) -> bool:
        return len(one.source) < 4 or len(one.tries) > 170

    assert [one for one in ADVICE if short(one)] == []


def test_ranks_of_one_thread_are_not_advised_to_have_fewer() -> None:
    crowded = Case("contention", per_node=4, on_node=6, cpus=2, threads=1, foreign=1.5)
    found = advise(crowded)
    assert not any("OMP_NUM_THREADS" in line for line in found.tries)
    assert any("fewer ranks per node" in line for line in found.tries)
    assert "6 ranks share 2 CPUs" in found.evidence, "parameter servers, too"
    assert any("OMP_NUM_THREADS=1" in line for line in advise(crowded._replace(threads=2)).tries)
    assert not any("fewer ranks" in line for line in advise(crowded._replace(per_node=2)).tries)


def test_worker_that_shares_its_node_with_a_server_is_not_alone() -> None:
    alone = Case("contention_own", per_node=1, cpus=2)
    assert not any("fewer ranks per node" in line for line in advise(alone).tries)
    assert any("fewer ranks per node" in line for line in advise(alone._replace(on_node=2)).tries)
