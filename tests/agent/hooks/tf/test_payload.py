"""Bytes of the variables on each parameter server."""

from __future__ import annotations

from roofline_agent.hooks.tf import payload as tf_payload

from ..site import IMPORT, PLACEMENT, Site, run


def test_payload_is_reported_by_server_and_size_class() -> None:
    sizes = [(0, 40), (0, 1023), (0, 1024), (2, 1 << 20), (2, (1 << 20) - 1)]
    assert dict(tf_payload.facts(sizes, 3)) == {
        "payload.ps:0.small": "2/1063",
        "payload.ps:0.medium": "1/1024",
        "payload.ps:0.large": "0/0",
        "payload.ps:0.total": "3/2087",
        "payload.ps:1.small": "0/0",
        "payload.ps:1.medium": "0/0",
        "payload.ps:1.large": "0/0",
        "payload.ps:1.total": "0/0",
        "payload.ps:2.small": "0/0",
        "payload.ps:2.medium": "1/1048575",
        "payload.ps:2.large": "1/1048576",
        "payload.ps:2.total": "2/2097151",
        "gradient.bytes": "2099238",
        "gradient.tensors": "5",
    }


def test_variables_are_reported_when_they_changed(coordinator: Site) -> None:
    coordinator.module(
        PLACEMENT,
        """
        class Shape:
            def __init__(self, n): self.n = n
            def num_elements(self): return self.n
        class Type:
            def __init__(self, size, is_integer): self.size, self.is_integer = size, is_integer
        class Variable:
            def __init__(self, n, ps, trainable=True, counter=False):
                self.shape, self.trainable, self.dtype = Shape(n), trainable, Type(4, counter)
                self.device = "/job:ps/replica:0/task:%d/device:CPU:0" % ps if ps is not None else ""
        class Sharded:
            def __init__(self, *shards): self.variables = shards
        class ParameterServerStrategyV2Extended:
            _num_ps = 2
            def _create_variable(self, next_creator, **kwargs): return next_creator(**kwargs)
        """,
    )
    said = run(
        coordinator,
        f"""
        {IMPORT}
        from {PLACEMENT} import *
        create = ParameterServerStrategyV2Extended()._create_variable
        kept = [create(Variable, n=10, ps=0), create(Variable, n=7, ps=0, trainable=False),
                create(Variable, n=1, ps=0, counter=True),
                create(lambda: Sharded(Variable(300, 0), Variable(300, 1))), create(Variable, n=3, ps=None),
                create(lambda: "odd")]
        create(Variable, n=99, ps=1)
        queue = _CoordinatedClosureQueue()
        train(Worker(0, queue))
        kept.append(create(Variable, n=1, ps=1))
        train(Worker(0, queue))
        """,
    )
    told = {name: value for name, value in said.facts.items() if not name.startswith("hook.")}
    assert told["payload.ps:0.total"] == "2/1240" and told["payload.ps:0.medium"] == "1/1200"
    assert told["payload.ps:1.total"] == "2/1204" and told["payload.ps:1.small"] == "1/4"
    assert (told["gradient.bytes"], told["gradient.tensors"]) == ("2444", "4")
