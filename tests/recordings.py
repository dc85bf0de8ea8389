"""Recorded files for the tests: ours in tests/data, and a corpus of other people's next to the project.

The corpus may not be copied into the project, so its tests come on top where it is there. ROOFLINE_CORPUS
says where: a folder; `required`: ../shared/corpus, and it is an error where that is missing; `none`: nowhere.
Unset: ../shared/corpus where that is there.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).parent / "data"
OURS = DATA / "recorded"
FORMATS = {  # folder of ours -> the format that its files are told to be
    "dcgm": "dcgm-exporter",
    "ert": "ert",
    "horovod": "horovod timeline",
    "kineto": "pytorch profiler",
    "likwid": "likwid",
    "likwid_bench": "likwid-bench",
    "ncu": "ncu",
    "nvprof": "nvprof",
    "onednn": "onednn",
    "perf": "perf stat",
    "stream": "stream",
    "training": "training log",
    "nsys": "nsys",
    "rocprof": "rocprof",
    "rocprofv3": "rocprofv3",
    "otlp": "otlp",
    "xplane": "xplane",
    "trainers": "trainer log",
    "trainer_state": "trainer state",
    "mllog": "mllog",
    "lightning": "lightning",
    "nvidia_smi": "nvidia-smi",
    "nccl": "nccl",
    "nvbandwidth": "nvbandwidth",
    "hpl": "hpl",
}


def corpus_folder(setting: str | None) -> Path | None:
    """The corpus, None where it is not here. Raises FileNotFoundError where it should be."""
    beside = ROOT.parent / "shared" / "corpus"
    if setting == "none":
        return None
    if not setting:
        return beside if (beside / "oracles.json").exists() else None
    folder = beside if setting == "required" else Path(setting)
    if not (folder / "oracles.json").exists():
        raise FileNotFoundError(
            f"ROOFLINE_CORPUS={setting}: no corpus of recorded files at {folder} (it has an oracles.json); "
            "ROOFLINE_CORPUS=none runs the tests without it"
        )
    return folder


try:
    CORPUS = corpus_folder(os.environ.get("ROOFLINE_CORPUS"))
except FileNotFoundError:  # conftest.py ends the run with this
    CORPUS = None


def ours(folder: str = "*") -> list[Path]:
    """Our own files of one tool."""
    return sorted(path for path in OURS.glob(f"{folder}/*") if path.suffix != ".md")


def corpus_files(folder: str = "*") -> list[Path]:
    return sorted(CORPUS.glob(f"{folder}/*")) if CORPUS else []


def corpus(file: str) -> str:
    """Path of a corpus file. Only for tests that are marked `corpus`."""
    assert CORPUS is not None, "this test reads the corpus and is not marked `corpus`"
    return str(CORPUS / file)


class Oracle(NamedTuple):
    """One number that a corpus file must give: `value` recomputed from it, `published` its source's."""

    file: str
    quantity: str
    value: float
    unit: str
    published: float | None
    rel_tol: float

    def __str__(self) -> str:
        return f"{self.file}-{self.quantity}"


@cache
def _all_oracles() -> tuple[Oracle, ...]:
    if CORPUS is None:
        return ()
    listed = json.loads((CORPUS / "oracles.json").read_text())
    return tuple(
        Oracle(o["file"], o["quantity"], o["value"], o["unit"], o["published"], o["rel_tol"]) for o in listed
    )


def oracles(folder: str) -> list[Oracle]:
    """The oracles of one folder of the corpus."""
    return [one for one in _all_oracles() if one.file.startswith(f"{folder}/")]


def meets(oracle: Oracle, found: float | None) -> bool:
    """Whether a number is the oracle's within its tolerance."""
    if found is None:
        return False
    return abs(found - oracle.value) <= max(oracle.rel_tol, 1e-6) * abs(oracle.value)
