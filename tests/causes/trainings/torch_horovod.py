"""One rank of a training with Horovod under PyTorch, under horovodrun."""

from __future__ import annotations

import horovod.torch as hvd
import torch
from journal import options
from torch_loop import make, prepare, train


def main() -> None:
    asked = options().parse_args()
    hvd.init()
    prepare(asked, hvd.rank())
    model = make(asked)()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    train(asked, f"horovod:{hvd.rank()}", hvd.rank(), model, optimizer)


if __name__ == "__main__":
    main()
