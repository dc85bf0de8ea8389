"""The layers of a model: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import layers as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (texts.other_layers(1), "1 other layer"),
        (texts.other_layers(12), "12 other layers"),
        (texts.layers_without_flops(8e-5), "80 us in layers without known FLOPs is not shown"),
        (
            texts.of_steps({f"ddp:{number}": 3 for number in range(9)}),
            "layers are those of the traced steps (3 of ddp:0, 3 of ddp:1, 3 of ddp:2, 3 of ddp:3, "
            "3 of ddp:4, 3 of ddp:5, 3 of ddp:6, 3 of ddp:7 and 1 more rank), which are slower than others",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
