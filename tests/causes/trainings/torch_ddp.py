"""One rank of a training with DistributedDataParallel, under torchrun."""

from __future__ import annotations

import torch
import torch.distributed as dist
from journal import options
from torch.nn.parallel import DistributedDataParallel
from torch_loop import make, prepare, train


def main() -> None:
    asked = options().parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    prepare(asked, rank)
    model = DistributedDataParallel(make(asked)())
    train(asked, f"ddp:{rank}", rank, model, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
