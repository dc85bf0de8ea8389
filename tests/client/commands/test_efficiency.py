"""The command `efficiency`: what it asks and prints, and which options it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from roofline.v1 import models_pb2 as pb

from .. import models
from ..command_line import asking
from ..fake_server import Asked, answer, serving

TRANSFORMER = ("--parameters", 1.3e9, "--tokens-per-example", 2048, "--layers", 24, "--hidden", 2048)


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(GetEfficiency=answer(models.efficiency())) as asked:
        yield asked


def test_all_forms(site: Asked) -> None:
    text, csv, document = (
        asking(site, "efficiency", "42", "--format", form) for form in ("text", "csv", "json")
    )
    assert [done.returncode for done in (text, csv, document)] == [0, 0, 0]
    assert text.stdout.startswith("MFU 25.0% of the measured FP32 peak")
    assert csv.stdout.startswith("job,label,rank,host,kind,name,value,unit,share,")
    assert "a note" in csv.stderr
    assert json.loads(document.stdout)["sentence"].startswith("MFU 25.0%")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), {}),
        (("--model-flops", "6.2e9"), {"flops_per_example": 6.2e9}),
        (
            ("--model-flops", "6.2e12/step", "--precision", "bf16"),
            {"flops_per_step": 6.2e12, "precision": "bf16"},
        ),
        (
            ("--precision", "FP32"),
            {"precision": "f32"},
        ),
        (
            (*TRANSFORMER, "--causal", "--sparse"),
            {
                "parameters": 1.3e9,
                "tokens_per_example": 2048,
                "layers": 24,
                "hidden": 2048,
                "causal": True,
                "sparse": True,
            },
        ),
    ],
)
def test_what_is_given_of_the_model_is_asked_for(
    site: Asked, options: tuple[object, ...], wanted: dict[str, object]
) -> None:
    site.requests.clear()
    done = asking(site, "efficiency", "--job", "42", "--steps", "3:9", "--rank", "worker:0", *options)
    assert done.returncode == 0, done.stderr
    subject = pb.Subject(job="42", first_step=3, last_step=9, ranks=["worker:0"])
    assert site.requests == [pb.GetEfficiencyRequest(subject=subject, **wanted)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [("42", "--model-flops", "many"), ("42", "--parameters", "x"), (), ("42", "--format", "xml")]
)
def test_what_cannot_be_is_a_usage_error(site: Asked, options: tuple[str, ...]) -> None:
    assert asking(site, "efficiency", *options).returncode == 2


def test_a_usage_error_names_the_option(site: Asked) -> None:
    done = asking(site, "efficiency", "42", "--precision", "foo")
    assert done.returncode == 2 and "--precision: 'foo' is no precision" in done.stderr
    assert "f32, tf32, f16" in done.stderr
    done = asking(site, "efficiency", "42", "--parameters", "-1", "--tokens-per-example", "1")
    assert done.returncode == 2 and "--parameters: -1 must be more than 0" in done.stderr
