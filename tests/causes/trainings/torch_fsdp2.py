"""One rank of a training with FSDP2 (fully_shard), under torchrun."""

from __future__ import annotations

import torch
import torch.distributed as dist
from journal import options
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import ModuleList
from torch_loop import make, prepare, train


def main() -> None:
    asked = options().parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    prepare(asked, rank)
    model = make(asked)()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parts = [
        layer for part in model.children() for layer in (part if isinstance(part, ModuleList) else [part])
    ]
    for part in parts:
        if any(True for _ in part.parameters()):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(asked, f"ddp:{rank}", rank, model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
