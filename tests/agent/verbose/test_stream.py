"""What the user gets and what we take from a stream, however it is cut."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.verbose import TimedCall, VerboseFilter, stream

DATA = Path(__file__).parents[2] / "data" / "onednn"
NOW = 1_795_202_900_000_000_000
STAMP = 1_795_202_852_749

TIMED = (
    b"onednn_verbose,v1,%d.500000,primitive,exec,cpu,reorder,jit:uni,undef,"
    b"src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0,,,2x3,0.25\n" % STAMP
)
UNTIMED = (
    b"dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,2x3,0.5\n"
)
GEMM = (
    b"MKL_VERBOSE SGEMM(N,N,8,7,9,0x1,0x2,8,0x3,9,0x4,0x5,8) 64.00us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2\n"
)
HEADER = b"onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2\n"
CUT_OFF = b"mkldnn_verbose,exec,convolution,jit:avx2\n"
MARK = b"roofline_verbose,mark,%d\n" % (NOW - 1000)
TIMED_END = STAMP * 1_000_000 + 500_000 + 250_000

USER = [b"loss 0.5\n", b"Epoch 1: 50%\r", b"\n", b"\xff\x00\n", b"see onednn_verbose docs\n"]
BEGINNINGS = [b"o", b"one", b"MKL", b"dnnl_verbose", b"MKL_VERBOSE", b"roofline_"]
pieces = st.lists(
    st.sampled_from([TIMED, UNTIMED, GEMM, HEADER, CUT_OFF, MARK, *USER, *BEGINNINGS]), max_size=12
)


def run(data: bytes, cuts: list[int], **keep: bool) -> tuple[bytes, list[TimedCall], tuple[int, int]]:
    verbose = VerboseFilter(**keep)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    output = b"".join(verbose.feed(data[a:b], NOW) for a, b in pairwise(edges))
    output += verbose.finish()
    return output, verbose.take(), (verbose.lines_seen, verbose.lines_unparsed)


def without_verbose_lines(data: bytes) -> bytes:
    return re.sub(rb"(((one|mkl)dnn|dnnl|roofline)_verbose,|MKL_VERBOSE )[^\n]*(\n|$)", b"", data)


@given(pieces)
def test_the_user_gets_everything_but_the_verbose_lines(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert run(data, [])[0] == without_verbose_lines(data)


@given(pieces, st.lists(st.integers(0, 900), max_size=8))
def test_cuts_change_nothing(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    for keep in ({}, {"keep_onednn": True}, {"keep_mkl": True}):
        assert run(data, cuts, **keep) == run(data, [], **keep)


@given(pieces)
def test_single_bytes_change_nothing(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert run(data, list(range(len(data)))) == run(data, [])


@given(pieces, st.lists(st.integers(0, 900), max_size=8))
def test_releasing_between_chunks_loses_and_doubles_nothing(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    verbose = VerboseFilter(keep_onednn=True, keep_mkl=True)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    output = b""
    for start, end in pairwise(edges):
        output += verbose.feed(data[start:end], NOW) + verbose.release()
    output += verbose.finish()
    if b"roofline" not in data:
        assert output == data
    assert verbose.take() == run(data, [])[1]


@pytest.mark.parametrize("log", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
def test_recorded_logs(log: Path) -> None:
    data = log.read_bytes()
    output, calls, (seen, unparsed) = run(data, list(range(0, len(data), 4096)))
    assert output == without_verbose_lines(data)
    assert unparsed == 0
    assert 0 < len(calls) <= seen


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        b"Setting MKL_VERBOSE to 1\n",
        b"see dnnl_verbose,info lines\n",
        b"export MKL_VERBOSE =1, then look for onednn_verbose, or mkldnn_verbose,\n",
    ],
)
def test_users_own_lines_about_verbose_output_are_theirs(line: bytes, reads: bool) -> None:
    verbose = VerboseFilter()
    verbose.reads = reads
    passed = verbose.feed(b"a" + line[:20], NOW) + verbose.feed(line[20:] + GEMM + line, NOW)
    assert passed + verbose.feed(line[:-1], NOW) + verbose.finish() == b"a" + line + line + line[:-1]
    assert (verbose.lines_seen, verbose.lines_unparsed) == (1, 0)


@pytest.mark.parametrize(
    "line",
    [
        b"MKL_VERBOSE Intel(R) MKL 2020.0 Update 1 Product build 20200208 for Intel(R) 64 architecture\n",
        b"MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture\n",
        b"MKL_VERBOSE Detected GPU0 Intel(R)_Data_Center_GPU_Max\n",
        b"onednn_verbose,v1,common,error,level0,errcode 5\n",
        b"onednn_verbose,v1,1795202852749.5,primitive,create:check,gemm,unsupported\n",
        b"onednn_verbose,v1,onednn_verbose,info,cpu\n",
        b"MKL_VERBOSE onednn_verbose,info,cpu\n",
        b"dnnl_verbose,create:cache_hit,cpu,reorder\n",
        b"mkldnn_verbose,info,Intel MKL-DNN v0.19.0\n",
    ],
)
def test_lines_of_the_libraries_that_are_no_calls_are_taken_out(line: bytes) -> None:
    assert run(b"a" + line + b"b\n", [20])[0] == b"ab\n"
    assert run(line[:-1], [])[0] == b""


def test_user_text_goes_through_at_once() -> None:
    verbose = VerboseFilter()
    assert verbose.feed(b"Epoch 1: 50%\r", NOW) == b"Epoch 1: 50%\r"
    assert verbose.feed(b"Password: ", NOW) == b"Password: "


def test_only_what_may_be_a_token_is_held() -> None:
    verbose = VerboseFilter()
    assert verbose.feed(b"hello", NOW) == b"hell"
    assert verbose.feed(b" MKL_", NOW) == b"o "
    assert verbose.release() == b"MKL_"
    assert verbose.feed(b"x\n", NOW) == b"x\n"
    assert verbose.finish() == b""


@pytest.mark.parametrize("escape", [b"\x1b[0m", b"\x1b[1;31m", b"\x1b[38;2;255;100;0m", b"\x1bM", b"\x1b[5d"])
def test_escape_sequences_go_through_whole(escape: bytes) -> None:
    verbose = VerboseFilter()
    assert verbose.feed(b"ok" + escape, NOW) == b"ok" + escape
    assert verbose.feed(escape, NOW) == escape
    assert verbose.feed(b"mkldnn_verbose,exec", NOW) == b""


def test_a_token_that_was_shown_in_part_is_still_a_token() -> None:
    verbose = VerboseFilter()
    assert verbose.feed(GEMM[:6], NOW) == b""
    assert verbose.release() == GEMM[:6]
    assert verbose.feed(GEMM[6:] + b"after\n", NOW) == b"after\n"
    assert len(verbose.take()) == 1


def test_an_unfinished_verbose_line_is_not_released() -> None:
    verbose = VerboseFilter()
    assert verbose.feed(b"50%\r" + TIMED[:40], NOW) == b"50%\r"
    assert verbose.release() == b""
    assert verbose.feed(TIMED[40:], NOW) == b""
    assert len(verbose.take()) == 1


def test_a_last_line_needs_no_newline() -> None:
    verbose = VerboseFilter()
    verbose.feed(GEMM.rstrip(), NOW)
    assert verbose.finish() == b""
    assert len(verbose.take()) == 1


def test_kept_lines_are_shown_and_counted_and_marks_never_shown() -> None:
    data = b"a" + TIMED + MARK + GEMM
    assert run(data, [], keep_onednn=True)[0] == b"a" + TIMED
    assert run(data, [], keep_mkl=True)[0] == b"a" + GEMM
    assert len(run(data, [], keep_onednn=True, keep_mkl=True)[1]) == 2


def test_a_lines_own_time_is_its_start() -> None:
    calls = run(MARK + TIMED, [])[1]
    assert [(call.start_ns, call.duration_ns) for call in calls] == [(STAMP * 1_000_000 + 500_000, 250_000)]


def test_a_line_without_time_follows_what_ended_before_it() -> None:
    starts = [call.start_ns for call in run(TIMED + UNTIMED + GEMM + MARK + GEMM, [])[1]]
    assert starts[1:] == [TIMED_END, TIMED_END + 500_000, NOW - 1000]


def test_without_any_time_in_the_stream_a_call_starts_when_it_arrives() -> None:
    verbose = VerboseFilter()
    verbose.feed(GEMM, 1000)
    verbose.feed(GEMM, 9000)
    assert [call.start_ns for call in verbose.take()] == [1000, 9000]
    assert verbose.take() == []


def test_lines_that_ran_together_are_both_taken() -> None:
    output, calls, counts = run(b"a" + UNTIMED.rstrip() + GEMM + CUT_OFF.rstrip() + TIMED + b"b\n", [])
    assert output == b"ab\n"
    assert [call.shape.library for call in calls] == ["onednn", "mkl", "onednn"]
    assert counts == (4, 1)


def test_counters_tell_headers_from_calls_that_were_not_understood() -> None:
    assert run(HEADER + CUT_OFF + GEMM + MARK + b"x\n", [])[2] == (3, 1)


@pytest.mark.parametrize("line", [b"roofline_verbose,mark,soon\n", b"roofline_verbose,\n"])
def test_a_broken_mark_is_removed_and_changes_no_time(line: bytes) -> None:
    output, calls, _ = run(b"a" + TIMED + line + GEMM, [])
    assert output == b"a"
    assert calls[1].start_ns == TIMED_END


@pytest.mark.parametrize("size", [1000, 100_000])
def test_an_endless_line_is_given_up(size: int) -> None:
    data = b"onednn_verbose," + b"x" * 200_000 + b"\nafter" + GEMM
    output, calls, _ = run(data, list(range(0, len(data), size)))
    assert output == data[: -len(GEMM)]
    assert len(calls) == 1


def test_an_endless_line_is_not_kept_in_memory() -> None:
    verbose = VerboseFilter()
    passed = verbose.feed(b"MKL_VERBOSE ", NOW)
    for _ in range(100):
        passed += verbose.feed(b"y" * 1000, NOW)
    assert len(passed) == len(b"MKL_VERBOSE ") + 100_000


@pytest.mark.parametrize("begin", [b"", b"see onednn_verbose, it says "])
def test_output_without_newlines_passes_as_fast_as_lines(begin: bytes) -> None:
    chunk, verbose = begin + b"step 3/10 loss 3.1\r" * 50_000, VerboseFilter()
    began = time.process_time()
    for _ in range(32):
        assert verbose.feed(chunk, NOW) == chunk
    # A search for tokens in the whole of it takes about 1 s.
    assert time.process_time() - began < 0.4


def test_calls_that_nobody_takes_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_MAX_CALLS", 2)
    verbose = VerboseFilter()
    verbose.feed(GEMM * 5, NOW)
    assert len(verbose.take()) == 2
    assert verbose.calls_dropped == 3


def test_notes_since_the_last_line_that_needs_them_are_counted() -> None:
    filtered = VerboseFilter()
    note = b"roofline_verbose,mark,1700000000000000000\n"
    filtered.feed(note * 3, 0)
    assert filtered.notes_alone == 3
    filtered.feed(b"MKL_VERBOSE SGEMM(N,N,4,4,4,0x1,0x2,4,0x3,4,0x4,0x5,4) 1.00us CNR:OFF\n" + note, 0)
    assert filtered.notes_alone == 1


def test_without_notes_a_line_of_mkls_is_placed_by_its_arrival() -> None:
    filtered = VerboseFilter()
    filtered.feed(b"roofline_verbose,mark,1000\n", 0)
    filtered.forget_time()
    filtered.feed(b"MKL_VERBOSE SGEMM(N,N,4,4,4,0x1,0x2,4,0x3,4,0x4,0x5,4) 1.00us CNR:OFF\n", 5000)
    assert [call.start_ns for call in filtered.take()] == [5000]


def note(what: str, moment: int, process: int = 5) -> bytes:
    return b"roofline_verbose,kernels,%d,%s,%d,%d\n" % (process, what.encode(), moment, moment + EPOCH)


EPOCH = 1_700_000_000_000_000_000
PRODUCT = b"MKL_VERBOSE SGEMM(T,N,2,3,4,0x1,0x2,4,0x3,4,0x4,0x5,2) 1.00us CNR:OFF Dyn:1\n"


def test_calls_come_in_the_stretches_that_hooks_have_sampled() -> None:
    filtered = VerboseFilter()
    stream = [note("sampled", 0), PRODUCT, note("on", 10), PRODUCT, b"loss 1\n", PRODUCT, note("through", 20)]
    stream += [PRODUCT, note("off", 30), PRODUCT]
    passed = b""
    for part in stream:
        passed += filtered.feed(part, 0)
        assert filtered.take() == [] or not filtered.sampled
    assert passed == b"loss 1\n"
    assert filtered.sampled
    stretches = filtered.take_stretches()
    assert [(s.begin_ns, s.end_ns, len(s.calls)) for s in stretches] == [(10, 20, 2), (20, 30, 1)]
    assert [call.start_ns for call in stretches[0].calls] == [EPOCH + 10, EPOCH + 1010]
    assert filtered.take_stretches() == []


@pytest.mark.parametrize(("reads", "moment", "calls"), [(True, 7, 2), (False, 0, 0)])
def test_calls_before_the_sample_are_those_until_it_began(reads: bool, moment: int, calls: int) -> None:
    filtered = VerboseFilter()
    filtered.reads = reads
    filtered.feed(PRODUCT + PRODUCT, 0)
    filtered.feed(note("sampled", 7) + PRODUCT + note("on", 10) + PRODUCT + note("off", 20), 0)
    assert (filtered.take_sampled_from(), len(filtered.take())) == (moment, calls)
    assert (filtered.take_sampled_from(), filtered.take()) == (0, [])
    assert [len(s.calls) for s in filtered.take_stretches()] == [1]


def test_stretch_with_a_line_that_was_not_understood_is_not_claimed() -> None:
    filtered = VerboseFilter()
    garbled = b"MKL_VERBOSE SGEMM(T,N,2,3\n"
    stream = [note("sampled", 0), note("on", 10), garbled, note("through", 20), PRODUCT, note("off", 30)]
    filtered.feed(b"".join(stream), 0)
    assert [(s.begin_ns, s.end_ns) for s in filtered.take_stretches()] == [(20, 30)]


def test_stretches_of_two_processes_at_once_are_not_claimed() -> None:
    filtered = VerboseFilter()
    stream = [note("sampled", 0), note("on", 10, 1), PRODUCT, note("on", 15, 2), PRODUCT, note("off", 20, 1)]
    stream += [note("off", 30, 2), note("on", 40, 2), PRODUCT, note("off", 50, 2)]
    filtered.feed(b"".join(stream), 0)
    assert [(s.begin_ns, s.end_ns, len(s.calls)) for s in filtered.take_stretches()] == [(40, 50, 1)]


def test_note_that_kernels_are_sampled_is_taken_while_lines_are_not_read() -> None:
    """One script may run a training with TensorFlow, whose lines are too many, and then one with PyTorch."""
    filtered = VerboseFilter()
    filtered.reads = False
    filtered.feed(PRODUCT + note("sampled", 0), 0)
    filtered.feed(PRODUCT, 0)
    filtered.feed(note("on", 10) + PRODUCT, 0)
    filtered.feed(PRODUCT, 0)
    filtered.feed(note("off", 20), 0)
    assert filtered.sampled
    assert [(s.begin_ns, s.end_ns, len(s.calls)) for s in filtered.take_stretches()] == [(10, 20, 2)]
