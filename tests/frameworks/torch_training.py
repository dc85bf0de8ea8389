"""A small convolutional network under PyTorch: two convolutions, a pooling, two linear layers, batch 16.

FLOPs of a step, counted by hand (2 x multiply-adds; no gradient of the input image):
two passes over the first convolution, three over the second and over both linear layers.
"""

import sys

import torch
from torch import nn

FLOPS_PER_STEP = (
    2 * 16 * 32 * 3 * 32 * 32 * 9 * 2
    + 2 * 16 * 64 * 32 * 32 * 32 * 9 * 3
    + 2 * 16 * 4096 * 256 * 3
    + 2 * 16 * 256 * 10 * 3
)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(4096, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    for k in range(int(sys.argv[1])):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if k % 10 == 9:
            print(f"step {k + 1} loss {loss.item():.4f}")
    print("done")


if __name__ == "__main__":
    main()
