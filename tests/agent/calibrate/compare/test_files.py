from __future__ import annotations

import json
from pathlib import Path

import pytest
from roofline_agent.calibrate.calibration import Calibration, Ceiling, to_json
from roofline_agent.calibrate.compare.files import read_theirs
from roofline_agent.calibrate.errors import CalibrationError

PEAK = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4.1e11, "FLOP/s", 0.03, "AVX-512", 7)
CALIBRATION = Calibration("node7", "its CPU", 2, 8, (PEAK, PEAK._replace(name="x.theory", provenance=3)))
STREAM = """\
STREAM version $Revision: 5.10 $
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           16000.0     0.0101     0.0100     0.0102
Triad:          24000.0     0.0101     0.0100     0.0102
"""


def written(tmp_path: Path, content: str) -> str:
    path = tmp_path / "file"
    path.write_text(content)
    return str(path)


def test_calibration_of_another_node_is_read_without_what_nobody_measured(tmp_path: Path) -> None:
    (one,) = read_theirs(written(tmp_path, json.dumps(to_json(CALIBRATION))))
    assert (one.name, one.value, one.what) == ("peak.f32.512", 4.1e11, "calibration of node7 (its CPU)")


def test_output_of_json_with_a_comparison_is_a_calibration_too(tmp_path: Path) -> None:
    content = json.dumps({**to_json(CALIBRATION), "comparison": []})
    assert len(read_theirs(written(tmp_path, content))) == 1


def test_stream_is_read(tmp_path: Path) -> None:
    found = read_theirs(written(tmp_path, STREAM))
    assert [(one.name, one.value) for one in found] == [("dram.copy", 16e9), ("dram.triad", 24e9)]


def test_ert_is_read(tmp_path: Path) -> None:
    ert = {"empirical": {"gbytes": {"data": [["L1", 80.0], ["DRAM", 10.0]]}, "gflops": {"data": []}}}
    found = read_theirs(written(tmp_path, json.dumps(ert)))
    assert {one.name: one.value for one in found} == {"l1.ert": 80e9, "dram.ert": 10e9}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        ("hello\n", "no known format"),
        ('{"format": 1, "ceilings": 7}', "is no calibration: ceilings is not a list"),
        ("dnnl_verbose,exec,cpu,matmul,ref,undef,src_f32,,,2x2:2x2,0.1\n", "holds no ceiling"),
    ],
)
def test_file_without_ceilings_is_refused_with_the_reason(
    tmp_path: Path, content: str, complaint: str
) -> None:
    with pytest.raises(CalibrationError, match=complaint):
        read_theirs(written(tmp_path, content))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"can't read .*nowhere: No such file"):
        read_theirs(str(tmp_path / "nowhere"))
