"""Products of matrices by numpy's BLAS, to compare with. A script for whatever Python has numpy.

Never imported: it runs as a child process alone. For each line "f32" or "f64" on standard input it multiplies
several times and answers with the FLOP per second of the fastest, 2 n^3 a product. Ends with its input.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy

KINDS = {"f32": "float32", "f64": "float64"}
RUNS = 5
FIRST, LARGEST = 1024, 8192
LEAST_S = 0.1


def product(n: int, kind: str) -> Callable[[], float]:
    a = numpy.random.default_rng(0).random((n, n)).astype(kind)
    out = numpy.empty_like(a)

    def run() -> float:
        begin = time.perf_counter()
        numpy.dot(a, a, out=out)
        return time.perf_counter() - begin

    return run


def rate(kind: str) -> float:
    n, run = FIRST, product(FIRST, kind)
    run()
    while min(run() for _ in range(2)) < LEAST_S and n < LARGEST:
        n *= 2
        run = product(n, kind)
    return 2.0 * n**3 / min(run() for _ in range(RUNS))


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(f"{rate(KINDS[line.strip()]):.6e}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
