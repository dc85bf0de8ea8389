"""A precision may be named as elsewhere; server and client take the same names."""

from __future__ import annotations

import pytest
from roofline.answers.precisions import KNOWN, precision_called, unknown
from roofline_server.records import PRECISIONS
from roofline_server.sentences.wording import title


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("FP32", "f32"),
        ("fp16", "f16"),
        ("float64", "f64"),
        ("torch.float32", "f32"),
        ("double", "f64"),
        ("half", "f16"),
        ("BF16", "bf16"),
        ("bfloat16", "bf16"),
        ("TF32", "tf32"),
        ("tensorfloat32", "tf32"),
        ("int8", "s8"),
        ("INT4", "s4"),
        ("uint8", "u8"),
        ("fp8", "f8"),
        ("FP8 e4m3", "f8_e4m3"),
        ("float8_e4m3fn", "f8_e4m3"),
        ("float8_e5m2fnuz", "f8_e5m2"),
    ],
)
def test_other_names(name: str, ours: str) -> None:
    assert precision_called(name) == ours


@pytest.mark.parametrize("name", ["foo", "fp", "f31", "bf32", "int7", "f32 f32", "", "32", "tf32_e4m3"])
def test_what_is_none(name: str) -> None:
    assert precision_called(name) is None
    assert repr(name) in unknown(name) and "bf16" in unknown(name)


def test_all_that_the_product_writes_are_known() -> None:
    assert set(KNOWN) >= set(PRECISIONS) - {""}
    for one in KNOWN:
        assert precision_called(one) == precision_called(title(one)) == one
