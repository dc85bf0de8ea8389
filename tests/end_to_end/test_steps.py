"""The table of steps against another reckoning: pandas over the exported raw data, nothing of the server.

The job is real: two workers with steps, sockets and CPU time, and a parameter server without own steps.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ..client.perfetto import COMPLAINTS, SLICES, ask, needs_perfetto, never_overlaps
from .conftest import Site, wait_until

pytestmark = pytest.mark.slow

TALKING = Path(__file__).with_name("talking.py")
STEPS, ENOUGH = 60, 10
JOB = f"reckoning-{os.getpid()}"  # of no other training on this machine
COUNTERS = {
    "cpu_time": ("samples_process", "cpu_ns", 1e9),
    "sent_bytes": ("samples_tcp", "tcp_sent_bytes", 1),
    "received_bytes": ("samples_tcp", "tcp_received_bytes", 1),
}


class Finished:
    """A job that is over: what the server says of its steps, and its raw data."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        table = site.ask("steps", "--job", JOB, "--format", "csv")
        assert table.returncode == 0, table.stderr
        (folder / "steps.csv").write_text(table.stdout)
        self.steps = pd.read_csv(folder / "steps.csv")
        done = site.ask("export", "--job", JOB, "-o", folder / "raw")
        assert done.returncode == 0, done.stderr
        self.folder = folder / "raw"

    def raw(self, dataset: str) -> pd.DataFrame:
        return pd.read_csv(self.folder / f"{dataset}.csv")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, subprocess.Popen[bytes]]]:
    """A site whose job is over, and its server, which has written nothing to segments."""
    site = Site(tmp_path_factory.mktemp("trained"))
    try:
        server = site.server("--seal", "600")
        agent = site.agent()
        serving = site.serving_rank(job=JOB)
        workers = [site.rank("worker", i, STEPS, 0.04, 16, job=JOB, script=TALKING) for i in range(2)]
        assert [w.wait(timeout=60) for w in workers] == [0, 0]
        wait_until(
            lambda: all(site.steps(f"worker:{i}", JOB) == STEPS for i in range(2)), what="all steps arrive"
        )
        serving.send_signal(signal.SIGTERM)
        serving.wait(timeout=60)
        # Without an agent no clock gets better between two questions.
        agent.send_signal(signal.SIGTERM)
        agent.wait(timeout=60)
        yield site, server
    finally:
        site.stop()


@pytest.fixture(scope="module", params=["unsealed", "sealed"])
def finished(
    request: pytest.FixtureRequest,
    trained: tuple[Site, subprocess.Popen[bytes]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Finished:
    """unsealed: nothing has been written to segments. sealed: all has, and the server was started again."""
    site, server = trained
    if request.param == "sealed":
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
        site.server("--seal", "600")
    return Finished(site, tmp_path_factory.mktemp(request.param))


# -- the reckoning: pandas and nothing else ------------------------------------------------------------------


def windows(marks: pd.DataFrame) -> pd.DataFrame:
    """rank, step, begin_ns, end_ns, examples of steps that were marked by a begin and an end."""
    keys = ["rank", "step"]
    times = marks.rename(columns={"time_ns": "begin_ns"})
    begins = times[times["kind"] == "begin"].set_index(keys)[["begin_ns"]]
    ends = times[times["kind"] == "end"].set_index(keys)[["begin_ns", "examples"]]
    return begins.join(ends.rename(columns={"begin_ns": "end_ns"})).reset_index()


def read_at(samples: pd.Series, moments: pd.Series) -> pd.Series:
    """The counter at these moments: on the straight line between the samples around each, else NaN."""
    origin = int(samples.index[0])
    counted = pd.Series(samples.to_numpy(dtype=float), index=samples.index - origin)
    wanted = pd.Index(moments - origin)
    both = counted.reindex(counted.index.union(wanted))
    inside = both.interpolate(method="index", limit_area="inside")
    return pd.Series(inside.reindex(wanted).to_numpy(), index=moments.index)


def integral(samples: pd.DataFrame, counter: str, steps: pd.DataFrame) -> pd.Series:
    counted = samples.dropna(subset=[counter]).sort_values("time_ns").set_index("time_ns")[counter]
    return read_at(counted, steps["end_ns"]) - read_at(counted, steps["begin_ns"])


def agree(server: pd.Series, own: pd.Series) -> None:
    """Both have a value in the same rows, and to 1e-9 of it the same."""
    assert (server.isna().to_numpy() == own.isna().to_numpy()).all()
    wrong = (server - own).abs() > 1e-9 * own.abs() + 1e-12
    assert not wrong.any(), pd.DataFrame({"server": server, "own": own})[wrong]


# -- what it must agree with ---------------------------------------------------------------------------------


def of_rank(finished: Finished, rank: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(rows of the server, own windows) of a worker, in the same order."""
    table = finished.steps[finished.steps["rank"] == rank].reset_index(drop=True)
    own = windows(finished.raw("marks"))
    own = own[own["rank"] == rank].sort_values("begin_ns").reset_index(drop=True)
    assert len(own) == STEPS
    return table, own


@pytest.mark.parametrize("rank", ["worker:0", "worker:1"])
def test_windows_are_those_of_the_marks(finished: Finished, rank: str) -> None:
    table, own = of_rank(finished, rank)
    assert table["step"].tolist() == own["step"].tolist() == list(range(STEPS))
    assert table["begin_ns"].tolist() == own["begin_ns"].tolist()
    assert table["duration_ns"].tolist() == (own["end_ns"] - own["begin_ns"]).tolist()
    assert table["examples"].tolist() == own["examples"].tolist() == [16] * STEPS


@pytest.mark.parametrize("rank", ["worker:0", "worker:1"])
@pytest.mark.parametrize("column", COUNTERS)
def test_integrals_agree(finished: Finished, rank: str, column: str) -> None:
    dataset, counter, scale = COUNTERS[column]
    table, own = of_rank(finished, rank)
    samples = finished.raw(dataset)
    mine = samples[samples["rank"] == rank]
    if "instance" in mine:  # rows that speak for a part of the rank, as one peer of its connections
        mine = mine[mine["instance"].isna()]
    counted = integral(mine, counter, own) / scale
    agree(table[column], counted)
    assert counted.notna().sum() > ENOUGH, "too few steps have samples around them to show anything"
    assert counted.sum() > 0


@pytest.mark.parametrize("rank", ["worker:0", "worker:1"])
def test_flops_are_those_of_the_calls(finished: Finished, rank: str) -> None:
    table, own = of_rank(finished, rank)
    calls = finished.raw("calls")
    calls = calls[calls["rank"] == rank]
    middle = calls["begin_ns"] + calls["duration_ns"] // 2
    inside = [
        calls["flops"][middle.between(b, e)].sum()
        for b, e in zip(own["begin_ns"], own["end_ns"], strict=True)
    ]
    known = table["flops"].notna()
    assert known.sum() > ENOUGH
    assert table["flops"][known].tolist() == pd.Series(inside)[known].tolist()


@pytest.mark.parametrize("rank", ["worker:0", "worker:1"])
def test_spans_are_cut_at_the_windows(finished: Finished, rank: str) -> None:
    """The training tells an input phase of every step, and collectives that reach from each into the next."""
    table, own = of_rank(finished, rank)
    spans = finished.raw("spans")
    mine = spans[(spans["rank"] == rank) & (spans["name"] == "phase.input")]
    agree(table["input_time"], overlap(mine, own) / 1e9)
    engine = spans[(spans["rank"] == rank) & (spans["name"] == "engine.allreduce")]
    agree(table["engine.allreduce.time"], overlap(engine, own) / 1e9)
    assert engine["count"].sum() == STEPS - 1
    assert engine["bytes"].sum() == (STEPS - 1) * 4096
    # A span counts in the step that holds its middle; on a busy machine that can lie between two steps.
    middle = (engine["begin_ns"] + engine["end_ns"]) // 2
    windows = list(zip(own["begin_ns"], own["end_ns"], strict=True))
    for column, of in (("engine_count", "count"), ("engine_bytes", "bytes")):
        assert table[column].tolist() == [engine[of][middle.between(b, e)].sum() for b, e in windows]


def overlap(spans: pd.DataFrame, steps: pd.DataFrame) -> pd.Series:
    """ns of each step within any of the spans, which do not overlap each other."""
    assert (spans.sort_values("begin_ns")["begin_ns"].diff().dropna() > 0).all()
    shared = [
        (spans["end_ns"].clip(upper=e) - spans["begin_ns"].clip(lower=b)).clip(lower=0).sum()
        for b, e in zip(steps["begin_ns"], steps["end_ns"], strict=True)
    ]
    return pd.Series(shared, index=steps.index, dtype=float)


def test_parameter_server_has_the_workers_windows(finished: Finished) -> None:
    served = finished.steps[finished.steps["rank"] == "ps:0"]
    own = windows(finished.raw("marks"))
    mode = "" if "window_of" not in finished.steps else "asynchronous"
    if mode:
        theirs = own.set_index(["rank", "step"])["begin_ns"]
        assert served.set_index(["window_of", "step"])["begin_ns"].to_dict() == theirs.to_dict()
    else:
        assert (
            served.set_index("step")["begin_ns"].to_dict() == own.groupby("step")["begin_ns"].min().to_dict()
        )


def test_export_holds_all_that_was_told(finished: Finished) -> None:
    marks = finished.raw("marks")
    assert len(marks[marks["kind"].isin(["begin", "end"])]) == 2 * 2 * STEPS
    described = finished.raw("columns")
    for dataset in described["dataset"].unique():
        columns = described[described["dataset"] == dataset]["column"].tolist()
        assert columns == finished.raw(dataset).columns.tolist()
    ranks = finished.raw("ranks")
    assert sorted(ranks["rank"]) == ["ps:0", "worker:0", "worker:1"]
    units: Any = described.set_index(["dataset", "column"])["unit"]
    assert units["samples_process", "cpu_ns"] == "ns" and units["samples_tcp", "tcp_sent_bytes"] == "byte"


# -- the timeline, read by Perfetto --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(finished: Finished) -> tuple[dict[str, Any], list[Any]]:
    """(what the trace says of itself, answers of Perfetto's trace processor)."""
    path = finished.folder.parent / "timeline.json.gz"
    done = finished.site.ask("timeline", "--job", JOB, "--kernels", "-o", path)
    assert done.returncode == 0, done.stderr
    about = json.loads(gzip.decompress(path.read_bytes()))["otherData"]
    return about, ask(path, SLICES, COMPLAINTS)


@needs_perfetto
@pytest.mark.parametrize("rank", ["worker:0", "worker:1"])
def test_timeline_has_the_steps_of_the_table(
    finished: Finished, opened: tuple[dict[str, Any], list[Any]], rank: str
) -> None:
    about, (slices, complaints) = opened
    assert complaints == []
    table, _ = of_rank(finished, rank)
    mine = [s for s in slices if s["process"].startswith(f"{rank} @") and s["thread"] == "steps"]
    assert [s["name"] for s in mine] == [f"step {k}" for k in range(STEPS)]
    assert [s["begin_ns"] + about["begin_unix_ns"] for s in mine] == table["begin_ns"].tolist()
    assert [s["lasts_ns"] for s in mine] == table["duration_ns"].tolist()


@needs_perfetto
def test_timeline_has_all_that_was_told(finished: Finished, opened: tuple[dict[str, Any], list[Any]]) -> None:
    _, (slices, _) = opened
    rows = {"phases": "phase.input", "engine": "engine.allreduce"}
    spans = finished.raw("spans")
    for row, name in rows.items():
        told = spans[spans["name"] == name]
        drawn = [s["lasts_ns"] for s in slices if s["thread"] == row]
        assert sorted(drawn) == sorted(told["end_ns"] - told["begin_ns"])
    assert sum(s["thread"].startswith("kernels") for s in slices) == len(finished.raw("calls"))
    processes = {s["process"].partition(" @")[0] for s in slices}
    assert processes == {"ps:0", "worker:0", "worker:1"}
    never_overlaps(slices)
