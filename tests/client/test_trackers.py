"""What a tracker has of a job after `publish`, read back as the tracker reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from roofline_client.cli import EXTRAS
from roofline_client.errors import ClientError
from roofline_client.trackers import mlflow_runs, tensorboard_logs, wandb_runs
from roofline_client.trackers.published import Published

FOUND = Published(
    "42/2", 1_000_000_000, 9_000_000_000, False, {"step_median_seconds": 0.25}, {"a": "b"}, "healthy"
)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "verdict.txt").write_text("Job 42\n")
    matplotlib.image.imsave(tmp_path / "account.png", np.zeros((4, 6, 3)))
    return [tmp_path / "verdict.txt", tmp_path / "account.png"]


def test_each_job_has_a_folder_of_its_own_within_that_of_tensorboard(tmp_path: Path) -> None:
    jobs = ["..", ".", "lab-1/2", "lab-1_2", "lab-1%2F2", "../../x", "résumé 1"]
    places = [tensorboard_logs.write(FOUND._replace(job=job), tmp_path / "runs", []) for job in jobs]
    assert len(set(places)) == len(jobs)
    assert {place.resolve().parent for place in places} == {(tmp_path / "runs").resolve()}
    assert places[2].name == "lab-1%2F2"


def test_folder_of_tensorboard_holds_numbers_texts_and_pictures(tmp_path: Path, files: list[Path]) -> None:
    from tensorboardX.proto.event_pb2 import Event

    place = tensorboard_logs.write(FOUND, tmp_path / "runs", files)
    assert place == tmp_path / "runs" / "42%2F2", "a run has a folder of its own"
    (log,) = place.iterdir()
    data, at, found = log.read_bytes(), 0, {}
    while at < len(data):  # TFRecord: length, its checksum, the record, its checksum
        size = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + size])
        found |= {value.tag: (event, value) for value in event.summary.value}
        at += size + 16
    event, number = found["roofline/step_median_seconds"]
    assert (number.simple_value, event.wall_time) == (0.25, 9.0)
    picture = found["roofline/account"][1].image
    assert (picture.height, picture.width) == (4, 6)
    assert picture.encoded_image_string == files[1].read_bytes()
    (name,) = [name for name in found if name.startswith("roofline/verdict")]
    assert b"Job 42" in found[name][1].tensor.string_val[0]


def test_a_job_that_is_published_again_is_replaced(tmp_path: Path, files: list[Path]) -> None:
    place = tensorboard_logs.write(FOUND, tmp_path / "runs", files)
    (place / "events.out.tfevents.1.node1").write_bytes(b"of the training itself")
    first = {path.name for path in place.iterdir()}
    tensorboard_logs.write(FOUND, tmp_path / "runs", files)
    names = {path.name for path in place.iterdir()}
    assert len(names) == 2 and names & first == {"events.out.tfevents.1.node1"}
    assert all("tfevents" in name for name in names), "or TensorBoard does not read it"


def test_folder_that_cannot_be_written_is_said(tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ClientError, match="cannot be written"):
        tensorboard_logs.write(FOUND, tmp_path / "runs", files)


def test_package_that_is_absent_has_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ModuleNotFoundError) as missing:
        wandb_runs.write(FOUND, "trials", tmp_path, [])
    assert missing.value.name in EXTRAS["wandb"]
    assert not list(tmp_path.iterdir())


def test_what_mlflow_needs_for_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(
        ClientError, match=r"^MLflow at sqlite:///.*runs.db needs alembic.*: pip install mlflow$"
    ):
        mlflow_runs.write(FOUND, f"sqlite:///{tmp_path}/runs.db", "roofline", [])
