"""A rank of a pretended job: real process, real marks, real CPU time, a real oneDNN line per step if asked.

python training.py STEPS SECONDS_PER_STEP EXAMPLES
"""

import os
import sys
import time

import roofline_step

# As oneDNN 3.7 prints a 512 x 512 x 512 matrix product: 2 * 512^3 FLOPs, 3 * 512^2 * 4 bytes.
KERNEL = (
    "onednn_verbose,v1,{stamp:.6f},primitive,exec,cpu,matmul,brg:avx512_core,undef,"
    "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,512x512:512x512,1.5"
)


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def main():
    steps, seconds, examples = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    begin = time.monotonic()
    for k in range(steps):
        with roofline_step.step(k, examples=examples):
            work(seconds)
            if os.environ.get("ONEDNN_VERBOSE"):
                print(KERNEL.format(stamp=time.time() * 1000 - 1.5), flush=True)
        if k % 10 == 9:
            print(f"step {k + 1}", flush=True)
    print(f"total examples/s: {steps * examples / (time.monotonic() - begin):.2f}", flush=True)


if __name__ == "__main__":
    main()
