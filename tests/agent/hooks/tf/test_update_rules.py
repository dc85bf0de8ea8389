"""The rule by which an optimizer updates a variable, found without reading anything of it from a device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from roofline_agent.hooks.tf import payload as tf_payload
from roofline_agent.hooks.tf.update_rules import ADAM, MOMENTUM, NESTEROV, SGD, Rule, rule_of


def optimizer(kind: str, **attributes: object) -> object:
    return type(kind, (SimpleNamespace,), {})(**attributes)


@pytest.mark.parametrize(
    ("kind", "attributes", "rule"),
    [
        ("SGD", {"momentum": 0.0, "nesterov": False}, SGD),
        ("SGD", {"momentum": 0.9, "nesterov": False}, MOMENTUM),
        ("SGD", {"momentum": 0.9, "nesterov": True}, NESTEROV),
        # Optimizers of Keras 2.10 keep the number among their hyperparameters, which may be variables.
        ("SGD", {"_momentum": True, "momentum": object(), "nesterov": False}, MOMENTUM),
        ("SGD", {"_momentum": False, "momentum": object(), "nesterov": False}, SGD),
        ("Adam", {"amsgrad": False}, ADAM),
        ("Adam", {"amsgrad": True}, None),
        ("RMSprop", {"momentum": 0.9}, None),
        ("Lion", {}, None),
    ],
)
def test_rule_is_that_of_the_optimizer_and_its_options(
    kind: str, attributes: dict[str, object], rule: Rule | None
) -> None:
    assert rule_of(optimizer(kind, **attributes)) == rule


def test_an_update_of_a_server_is_that_of_all_its_variables() -> None:
    """1,000 and 24 elements of 4 bytes: 4 FLOPs each, gradient, variable and one slot."""
    placed = [tf_payload.Placed(None, 0, 4000, 1000), tf_payload.Placed(None, 0, 96, 24)]
    placed += [tf_payload.Placed(None, 2, 80, 10)]
    assert tf_payload.updates(placed, MOMENTUM) == [
        ("update.ps:0", "4096/20480/f32 SGD with momentum"),
        ("update.ps:2", "40/400/f64 SGD with momentum"),
    ]
    assert tf_payload.updates(placed, None) == []
