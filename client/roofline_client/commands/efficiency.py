"""`roofline-client efficiency`."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from roofline.answers.model_flops import ModelFlops
from roofline.answers.precisions import precision_called, unknown

from ..step_range import parse_steps
from .options import (
    DEFAULT_SERVER,
    FormatOption,
    JobArgument,
    OptionalJobOption,
    RanksOption,
    ServerOption,
    StepsOption,
    check_format,
    check_positive,
    one_job,
    resolve_job,
    show,
)

ModelFlopsOption = Annotated[
    str,
    typer.Option(
        "--model-flops",
        metavar="FLOPS",
        help="FLOPs of the model, forward and backward: 6.2e9 per example, or 6.2e12/step per rank and step",
    ),
]
ParametersOption = Annotated[
    float | None,
    typer.Option(
        "--parameters", help="parameters of a transformer that each token is multiplied with (6 FLOPs each)"
    ),
]
TokensOption = Annotated[float | None, typer.Option("--tokens-per-example", help="with --parameters")]
LayersOption = Annotated[
    float | None, typer.Option("--layers", help="with --parameters: number of layers, to count attention")
]
HiddenOption = Annotated[
    float | None, typer.Option("--hidden", help="with --layers: hidden size, heads x width of a head")
]
CausalOption = Annotated[
    bool, typer.Option("--causal", help="with --layers: attention looks back only, so half of it counts")
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="precision of the peak: f32, tf32, bf16, ... [that of most FLOPs]")
]
SparseOption = Annotated[
    bool,
    typer.Option(
        "--sparse", help="compare with the sparse peak as well, twice the dense one of tensor cores"
    ),
]
_FLOPS = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(?:/(example|step))?")


def efficiency(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    steps: StepsOption = "",
    rank: RanksOption = None,
    model_flops: ModelFlopsOption = "",
    parameters: ParametersOption = None,
    tokens: TokensOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    causal: CausalOption = False,
    precision: PrecisionOption = "",
    sparse: SparseOption = False,
) -> None:
    """MFU, HFU, distance to the roof, and where the rest goes."""
    check_format(output)
    asked = one_job(which, job)
    first, last = parse_steps(steps)
    per_example, per_step = parse_flops(model_flops)
    check_positive(
        {
            "--parameters": parameters,
            "--tokens-per-example": tokens,
            "--layers": layers,
            "--hidden": hidden,
        }
    )
    _check_transformer(parameters, tokens, layers, hidden, causal)
    from ..api import connect
    from ..tables import efficiencies

    model = ModelFlops(
        per_example, per_step, parameters, tokens, layers, hidden, causal, parse_precision(precision), sparse
    )
    with connect(server) as client:
        asked = resolve_job(client, asked)
        found = client.efficiency(asked, model, first_step=first, last_step=last, ranks=rank or ())
    show(output, found, efficiencies, found.notes)


def _check_transformer(
    parameters: float | None, tokens: float | None, layers: float | None, hidden: float | None, causal: bool
) -> None:
    """Raises BadParameter where a part of the formula is missing."""
    if (parameters is None) != (tokens is None):
        raise typer.BadParameter("--parameters and --tokens-per-example are given together")
    if (layers is None) != (hidden is None):
        raise typer.BadParameter("--layers and --hidden are given together")
    if layers is not None and parameters is None:
        raise typer.BadParameter("--layers and --hidden need --parameters and --tokens-per-example")
    if causal and layers is None:
        raise typer.BadParameter("--causal needs --layers and --hidden")


def parse_precision(given: str) -> str:
    """ "f32" of "FP32" and "float32"; "" of "". Raises BadParameter."""
    found = precision_called(given) if given else ""
    if found is None:
        raise typer.BadParameter(unknown(given), param_hint="--precision")
    return found


def parse_flops(given: str) -> tuple[float | None, float | None]:
    """(of an example, of a step), one of them, of "6.2e9", "6.2e9/example" or "6.2e12/step"; neither of "".
    Raises BadParameter."""
    if not given:
        return None, None
    found = _FLOPS.fullmatch(given.strip())
    try:
        flops = float(found[1]) if found else 0.0
    except ValueError:
        flops = 0.0
    if found is None or not flops > 0:
        raise typer.BadParameter(
            f"{given!r} is not like 6.2e9 (of an example) or 6.2e12/step", param_hint="--model-flops"
        )
    return (None, flops) if found[2] == "step" else (flops, None)
