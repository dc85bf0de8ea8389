from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded import text as text_module
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.errors import NotText
from roofline_agent.recorded.training import reader as training_log

from .traces import as_text, format_of, found_in, warned


def found(content: str) -> Collector:
    return found_in(content, training_log.read)


# -- tf_cnn_benchmarks ------------------------------------------------------------------------------

HEADER = """\
TensorFlow:  1.15
Model:       resnet50
Batch size:  {whole} global
             {device} per device
Devices:     {devices}
Variables:   {variables}
==========
Done warm up
Step\tImg/sec\ttotal_loss
"""
STEPS = """\
1\timages/sec: 100.0 +/- 0.0 (jitter = 0.0)\t7.904
10\timages/sec: 110.5 +/- 3.2 (jitter = 7.5)\t7.899
20\timages/sec: 108.1 +/- 2.0 (jitter = 5.5)\t7.812
"""
TOTAL = "-" * 64 + "\ntotal images/sec: {rate}\n" + "-" * 64 + "\n"


def header(ranks: int = 1, gpus: int = 1, variables: str = "replicated") -> str:
    names = [f"'horovod/gpu:{rank}'" if ranks > 1 else f"'/gpu:{rank}'" for rank in range(max(ranks, gpus))]
    whole = 64 * max(ranks, gpus)
    return HEADER.format(whole=whole, device=64, devices=f"[{', '.join(names)}]", variables=variables)


def test_log_of_one_process() -> None:
    got = found(header(gpus=4) + STEPS + TOTAL.format(rate="109.25"))
    assert got.throughput == ("images", 109.25, 108.1, 3, 256, "all ranks")
    assert [(one.step, one.examples_per_s, one.loss) for one in got.steps] == [
        (1, 100.0, 7.904),
        (10, 110.5, 7.899),
        (20, 108.1, 7.812),
    ]
    assert (got.version, got.facts["model"], got.facts["device_count"]) == ("1.15", "resnet50", 4)
    assert got.facts["step_lines_speak_for"] == "all ranks"


@pytest.mark.parametrize("prefix", ["[rank{}]:", "[default{}]:", "[{}]<stdout>:", "{}: "])
def test_lines_of_other_ranks_are_left_out_whatever_launched_them(prefix: str) -> None:
    lines = STEPS.splitlines()
    log = "\n".join(f"{prefix.format(rank)}{line}" for line in lines for rank in (0, 1))
    got = found(header(ranks=2) + log)
    assert [one.step for one in got.steps] == [1, 10, 20]
    assert warned(got, "several ranks wrote this log")


def test_horovod_total_is_not_multiplied_by_the_ranks() -> None:
    """The trap: 16 ranks at 44 images/s print a total of 705, and that is all of them."""
    got = found(header(ranks=16, variables="horovod") + STEPS + TOTAL.format(rate="1728.01"))
    assert got.throughput == ("images", 1728.01, 108.1, 3, 64, "all ranks")
    assert got.facts["step_lines_speak_for"] == "this rank"


def test_totals_of_several_ranks_in_one_log_are_not_added() -> None:
    ranks = [f"[1,{rank}]<stdout>:{line}" for line in STEPS.splitlines() for rank in (0, 1)]
    totals = [f"[1,{rank}]<stdout>:total images/sec: 21{rank}.5" for rank in (0, 1)]
    got = found(header(ranks=2, variables="horovod") + "\n".join([*ranks, *totals]))
    assert got.throughput is not None
    assert got.throughput[1:4] == (210.5, 108.1, 3)
    assert warned(got, "2 totals are printed") and warned(got, "several ranks wrote this log")


@pytest.mark.parametrize(
    "prefix",
    [
        "I0423 13:12:28.675215 47662990089600 tf_logging.py:115] ",
        "INFO:tensorflow:",
        "INFO|2024-12-07T13:55:24|/opt/launcher.py|27| ",
        "3: ",
        "[0]<stdout>:",
        "\x1b[32m",
        "    ",
    ],
)
def test_prefixes_of_loggers_and_launchers_do_not_matter(prefix: str) -> None:
    content = header() + STEPS + TOTAL.format(rate="109.25")
    got = found("".join(f"{prefix}{line}\r\n" for line in content.splitlines()))
    assert got.throughput == ("images", 109.25, 108.1, 3, 64, "all ranks")


def test_tabs_turned_into_blanks_and_lines_without_a_loss_are_read() -> None:
    got = found(
        "30  images/sec: 98.8 +/- 0.2 (jitter = 0.6)  7.976\n40 images/sec: 98.4 +/- 0.2 (jitter = 1.2)\n"
    )
    assert [(one.step, one.examples_per_s, one.loss) for one in got.steps] == [
        (30, 98.8, 7.976),
        (40, 98.4, None),
    ]


def test_time_of_a_step_comes_from_its_last_column_or_its_prefix() -> None:
    line = "{}{}\timages/sec: 1.0 +/- 0.0 (jitter = 0.0)\t7.9\t0.001{}\n"
    stamped = found(line.format("", 1, " 1604266000") + line.format("", 10, " 1604266007"))
    assert [one.t_s for one in stamped.steps] == [0, 7]
    assert stamped.started_ns == 1604266000 * 10**9
    glog = "I0423 13:12:{} 4766 tf_logging.py:115] "
    logged = found(line.format(glog.format("28.5"), 1, "") + line.format(glog.format("42.75"), 10, ""))
    assert [one.t_s for one in logged.steps] == [0, pytest.approx(14.25)]
    assert logged.started_ns is None, "no year"


def test_log_without_a_total_has_the_mean_up_to_its_last_line() -> None:
    got = found(header(ranks=4, variables="horovod") + STEPS)
    assert got.throughput == ("images", 108.1, 108.1, 3, 64, "this rank")
    assert warned(got, "ends before its total")
    assert found(STEPS).throughput == ("images", 108.1, 108.1, 3, None, "")


def test_loss_or_rate_that_is_no_number_is_none() -> None:
    got = found(
        "1\timages/sec: 5.0 +/- 0.0 (jitter = 0.0)\tnan\n10\timages/sec: nan +/- nan (jitter = nan)\t7\n"
    )
    assert [(one.step, one.loss) for one in got.steps] == [(1, None)]
    assert warned(got, "no number")


def test_every_device_of_a_long_list_counts() -> None:
    got = found(header(ranks=60, variables="horovod") + STEPS)
    assert got.facts["device_count"] == 60
    assert got.throughput is not None and got.throughput.batch == 64


@pytest.mark.parametrize("prefix", ["I0516 13:52:08.129 14 tf_logging.py:115] ", "[1,0]<stdout>:"])
def test_two_steps_that_run_together_in_a_line_are_two(prefix: str) -> None:
    lines = [prefix + line for line in STEPS.splitlines()]
    assert [one.step for one in found(lines[0] + lines[1] + "\n" + lines[2]).steps] == [1, 10, 20]


def test_log_that_is_nothing_but_noise_holds_nothing() -> None:
    noise = (
        "2019-04-23 13:12:05.3: I tensorflow/core/platform/cpu_feature_guard.cc:141] Your CPU supports AVX2\n"
    )
    assert found(noise).is_empty
    late = noise * 800 + header() + STEPS
    assert format_of(late) == "training log", "the steps begin behind the head"


# -- Keras ------------------------------------------------------------------------------------------

BAR = "[==============================]"


def steps(got: Collector) -> list[tuple[int, float | None, float | None]]:
    return [
        (one.step, None if one.step_time_s is None else round(one.step_time_s, 9), one.loss)
        for one in got.steps
    ]


def test_steps_go_on_across_epochs() -> None:
    got = found(
        f"Epoch 1/2\n100/100 {BAR} - 12s 118ms/step - loss: 0.5000 - accuracy: 0.8 - val_loss: 0.1\n"
        f"Epoch 2/2\n100/100 {BAR} - 11s 110ms/step - accuracy: 0.8 - loss: 4.0e-01\n"
    )
    assert steps(got) == [(100, 0.118, 0.5), (200, 0.11, 0.4)]
    assert got.tool == "keras"
    assert got.facts == {"epochs": 2, "epochs_planned": 2, "steps_per_epoch": 100}
    assert got.throughput == ("examples", None, None, 2, None, "")
    assert warned(got, "does not print the batch size")


def test_samples_tell_how_many_examples_a_second() -> None:
    got = found(
        "Train on 60000 samples, validate on 10000 samples\n"
        f"Epoch 1/2\n60000/60000 {BAR} - 3s 50us/sample - loss: 0.29\n"
        f"Epoch 2/2\n60000/60000 {BAR} - 2s 40us/sample - loss: 0.13\n"
    )
    assert [(one.step, one.examples_per_s and round(one.examples_per_s)) for one in got.steps] == [
        (1, 20000),
        (2, 25000),
    ]
    assert got.throughput is not None
    assert got.throughput.examples_per_s == pytest.approx(120000 / 5.4)
    assert got.throughput.last_examples_per_s == pytest.approx(25000)
    assert got.facts["step_means"] == "epoch"


def test_keras_2_2_says_step_where_it_means_sample() -> None:
    got = found(f"Train on 1000 samples\nEpoch 1/1\n1000/1000 {BAR} - 1s 500us/step - loss: 0.29\n")
    assert got.throughput is not None and got.throughput.examples_per_s == pytest.approx(2000)
    steps_only = found(f"Train on 1000 steps\nEpoch 1/1\n1000/1000 {BAR} - 1s 500us/step - loss: 0.29\n")
    assert steps(steps_only) == [(1000, 5e-4, 0.29)]


def drawn(done: int, rest: str) -> str:
    """A state of a Keras 3 bar as it is written to a terminal."""
    return f"\x1b[1m{done:3}/938\x1b[0m \x1b[32m━━━━━\x1b[0m\x1b[37m━━━━━\x1b[0m \x1b[1m{rest}"


KERAS_3 = (
    "Epoch 1/2\n"
    + "\x08\x08\x08\x08\r".join(
        [
            drawn(1, "17:57\x1b[0m 1s/step - loss: 2.3"),
            drawn(500, "1s\x1b[0m 3ms/step - loss: 1.3"),
            drawn(938, "4s\x1b[0m 4ms/step - loss: 0.5"),
            drawn(938, "5s\x1b[0m 5ms/step - loss: 0.5 - val_loss: 0.7\n"),
        ]
    )
    + "Epoch 2/2\n938/938 ━━━━━━━━━━━━━━━━━━━━ 3s 3ms/step - loss: 0.4\n"
)


@pytest.mark.parametrize("chunk_bytes", [1, 5, 1 << 18])
def test_lines_written_over_count_once_with_their_last_state(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "HEAD_BYTES", chunk_bytes)
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk_bytes)
    assert steps(found(KERAS_3)) == [(938, 0.005, 0.5), (1876, 0.003, 0.4)]


def test_log_full_of_backspaces_is_text() -> None:
    assert format_of(KERAS_3.replace("\x08", "\x08" * 200)) == "training log"


def test_states_that_a_copy_put_side_by_side_count_once() -> None:
    line = "   1/1875 ━━━━━━━━━━ 43s 23ms/step - loss: 2.0  25/1875 ━━━━━━━━━━ 3s 2ms/step - loss: 1.5"
    assert steps(found(f"Epoch 4/10\n{line}     1875/1875 ━━━━━━━━━━ 4s 2ms/step - loss: 0.2\n")) == [
        (1875, 0.002, 0.2)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "100/100 - 12s - loss: 0.5 - accuracy: 0.8 - 12s/epoch - 118ms/step",
        "100/100 - 12s - 118ms/step - accuracy: 0.8 - loss: 0.5",
        "100/100 - 12s 118ms/step - loss: 0.5 - accuracy: 0.8",
        "[1,0]<stdout>:100/100 [=====] - 12s 118ms/step - loss: 0.5",
        "# 100/100 [=====] - 12s 118ms/step - loss: 0.5",
        "100/100 \ufffd\ufffd\ufffd\ufffd 12s 118ms/step - loss: 0.5",
        "100/100 [32m━━━━━[0m[37m[0m [1m12s[0m 118ms/step - loss: 0.5",
    ],
)
def test_lines_of_all_versions_say_the_same(line: str) -> None:
    got = found(f"Epoch 1/1\n{line}\n")
    assert steps(got) == [(100, 0.118, 0.5)]
    assert [(one.name, one.count, one.time_s) for one in got.phases] == [("epoch", 1, 12.0)]


def test_whole_seconds_of_an_epoch_are_taken_and_said() -> None:
    got = found("Epoch 1/1\n100/100 - 12s - loss: 0.5\n")
    assert steps(got) == [(100, 0.12, 0.5)]
    assert warned(got, "whole seconds")


def test_long_epochs_are_printed_as_a_clock() -> None:
    got = found(f"Epoch 1/1\n100/100 {BAR} - 1:02:03 37s/step - loss: 0.5\n")
    assert [(one.name, one.time_s) for one in got.phases] == [("epoch", 3723.0)]


def test_epoch_line_without_a_count_has_no_step_time() -> None:
    got = found("Epoch 1/2\n - 12s - loss: 0.5 - acc: 0.8\nEpoch 2/2\n - 0s - loss: 0.4\n")
    assert steps(got) == [(1, None, 0.5), (2, None, 0.4)]
    assert got.facts["step_means"] == "epoch"


def test_bars_of_downloads_and_evaluations_are_not_training() -> None:
    got = found(
        f"11490434/11490434 {BAR} - 2s 0us/step\n"
        f"Epoch 1/1\n100/100 {BAR} - 12s 118ms/step - loss: 0.5\n"
        f"313/313 {BAR} - 1s 2ms/step - loss: 0.3\n"
        "10000/1 - 0s - loss: 0.04\n"
    )
    assert steps(got) == [(100, 0.118, 0.5)]
    assert warned(got, "outside of an epoch")


def test_evaluation_is_told_by_its_length_where_no_epoch_is_named() -> None:
    got = found("20/20 - 220s - loss: 12.2\n20/20 - 210s - loss: 12.1\n6/6 - 19s - loss: 12.3\n")
    assert [(one.step, one.loss) for one in got.steps] == [(20, 12.2), (40, 12.1)]
    assert (got.facts["steps_per_epoch"], got.facts["epochs"]) == (20, 2)
    assert warned(got, "no epoch is named")
    assert warned(got, "outside of an epoch")


def test_one_of_several_ranks_is_followed_through_what_it_draws_over() -> None:
    def bars(rank: int, loss: float) -> str:
        drawn = (
            f"[1,{rank}]<stdout>: 1/2 [=>..] - ETA: 1s - loss: 9.0\r2/2 [====] - 3s 1s/step - loss: {loss}"
        )
        return f"[1,{rank}]<stdout>:Epoch 1/1\n{drawn}\n"

    got = found(bars(0, 0.5) + bars(1, 0.7))
    assert [(one.step, one.loss) for one in got.steps] == [(2, 0.5)]
    assert got.facts["epochs"] == 1
    assert warned(got, "several ranks")


def test_epochs_that_were_cut_out_are_missed() -> None:
    epoch = "Epoch {}/9\n2/2 [====] - 3s 1s/step - loss: 0.5\n"
    cut = found(epoch.format(1) + epoch.format(2) + "<<9 more lines>>\n" + epoch.format(9))
    assert warned(cut, "epochs are missing")
    assert not warned(found(epoch.format(1) + epoch.format(2) + epoch.format(1)), "missing")


def test_lines_of_keras_1_are_epochs() -> None:
    got = found("Epoch 1/2\n31s - loss: 0.5 - acc: 0.1\nEpoch 2/2\n30s - loss: 0.4 - acc: 0.2\n")
    assert [(one.step, one.loss) for one in got.steps] == [(1, 0.5), (2, 0.4)]
    assert [(one.count, one.time_s) for one in got.phases] == [(2, 61.0)]


def test_time_that_is_left_is_no_time_that_has_passed() -> None:
    got = found("Epoch 1/2\n 5/10 [=====>....] - ETA: 2s - loss: 2.0\nTraceback (most recent call last):\n")
    assert steps(got) == [(5, None, 2.0)]
    assert warned(got, "not finished")
    assert list(got.phases) == []


def test_number_of_steps_is_unknown_in_a_first_epoch() -> None:
    got = found(
        "Epoch 1/1\n      1/Unknown - 5s 5s/step - loss: 2.3\n     10/Unknown - 6s 600ms/step - loss: 2.2\n"
        f"10/10 {BAR} - 6s 580ms/step - loss: 2.2\n"
    )
    assert steps(got) == [(10, 0.58, 2.2)]


def test_notebook_is_no_log() -> None:
    output = f'"Epoch 1/1\\n", "9/9 {BAR} - 3s 50us/step - loss: 0.5\\n"'
    notebook = f'{{\n "cells": [\n  {{"cell_type": "code", "outputs": [{{"text": [{output}]}}]}}]}}'
    assert training_log.sniff(notebook) == 0
    assert training_log.sniff(output) > 0


def test_other_text_is_no_training() -> None:
    assert training_log.sniff("3/5 tests passed - 12s\nloss: 4\nEpoch of 1/5\n") == 0
    assert format_of(f"Epoch 1/2\n1/100 {BAR} - ETA: 3s") == "training log"


# -- both -------------------------------------------------------------------------------------------


def test_verbose_lines_behind_a_long_beginning_are_kernels() -> None:
    noise = "2020-01-01 00:00:00.0: W tensorflow/core/framework/allocator.cc:107] exceeds 10%\n" * 1000
    product = "MKL_VERBOSE SGEMM(N,N,2,3,4,0x1,0x2,2,0x3,4,0x4,0x5,2) 5.00us CNR:OFF Dyn:1 FastMM:1 NThr:1\n"
    content = noise + STEPS + product
    assert format_of(content) == "training log"
    got = found(content)
    assert [(one.flops, one.time_s) for one in got.kernels] == [(48.0, 5e-6)]
    assert len(list(got.steps)) == 3


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    text = as_text("a\rb\r\nc\x08\x08d\n\ne")
    assert list(training_log.states(text)) == ["a", "b", "", "c", "d", "", "e"]
    assert text.line == 4


def test_warning_names_the_line_that_it_is_about() -> None:
    got = found("x\n1\timages/sec: nan +/- 0.0 (jitter = 0.0)\n" + STEPS)
    assert [one.line for one in got.warnings if "no number" in one.text] == [2]
    ended = found(f"{STEPS}MKL_VERBOSE SGEMM(N,N,2,3\n")
    assert [one.line for one in ended.warnings if "ends inside" in one.text] == [4]


NOISE = st.text(alphabet="\x08\r\n 0123456789/[]=>.-:smu+epochEinagflotld\t()", max_size=200)
GOOD = [
    header() + STEPS + TOTAL.format(rate="5"),
    KERAS_3,
    f"Train on 9 samples\nEpoch 1/1\n9/9 {BAR} - 3s 50us/sample\n",
]


LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60).map(
    lambda t: "# " + t
)


@given(st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 99), LINE), max_size=4))
def test_what_else_a_training_says_costs_no_step(good: str, said: list[tuple[int, str]]) -> None:
    lines = good.splitlines(keepends=True)
    for at, line in said:
        lines.insert(at % (len(lines) + 1), line + "\n")
    got, whole = found("".join(lines)), found(good)
    assert list(got.steps) == list(whole.steps) != []
    assert got.throughput == whole.throughput


@given(st.sampled_from(GOOD), NOISE, st.integers(0, 600))
def test_damage_makes_up_no_step(good: str, noise: str, at: int) -> None:
    content = good[:at] + noise + good[at + len(noise) // 2 :]
    with contextlib.suppress(NotText):  # too many control characters
        steps = list(found(content).steps)
        assert len(steps) <= sum(map(content.count, "\r\n\x08")) + 1
        for one in steps:
            assert one.step >= 0
            assert one.step_time_s is None or one.step_time_s > 0
