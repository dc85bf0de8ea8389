from __future__ import annotations

from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch
from roofline_server.store.export import export

from ..builders import GAUGE, Node, S, batch, counter_set, open_store, rank, samples


@pytest.mark.parametrize("name", ["kind", "kernel", "sender", "precision"])
def test_metric_called_like_a_column_of_other_data_keeps_its_values(tmp_path: Path, name: str) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    node.put(store, with_metric(name))
    raw = store.raw("job")
    assert raw
    (chunk,) = (chunk for chunk in export(raw) if chunk.dataset == "samples_mine")
    (column,) = (column for column in chunk.columns if column.name == name)
    assert list(column.values) == [3, 4]
    store.close()


@pytest.mark.parametrize("name", ["host", "node_ns"])
def test_metric_called_like_a_column_of_all_exports_is_refused(tmp_path: Path, name: str) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    with pytest.raises(BadBatch, match=f"no metric may be called '{name}'"):
        node.put(store, with_metric(name))
    store.close()


def with_metric(name: str) -> pb.Batch:
    metrics = [(name, GAUGE, False)]
    rows = [(0, 12 * S, [3]), (0, 13 * S, [4])]
    return batch(
        1,
        10 * S,
        14 * S,
        ranks=[rank()],
        counter_sets=[counter_set("mine", metrics)],
        samples=[samples(0, rows, metrics)],
    )
