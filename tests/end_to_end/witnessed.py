"""A rank whose marks have a witness: each lies between two readings of the real time, printed as JSON.

The readings come from a child without LD_PRELOAD: they stay true when libfaketime bends our clocks.

python witnessed.py STEPS SECONDS_PER_STEP
"""

import json
import subprocess
import sys
import time

import roofline_step

WITNESS = """
import sys, time
while sys.stdin.buffer.raw.read(1):
    sys.stdout.buffer.raw.write(b"%d\\n" % time.time_ns())
"""


class Witness:
    def __init__(self):
        self._child = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", WITNESS],
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def now(self):
        self._child.stdin.write(b"?")
        return int(self._child.stdout.readline())

    def close(self):
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


def main():
    steps, seconds = int(sys.argv[1]), float(sys.argv[2])
    witness = Witness()
    witness.now()
    for k in range(steps):
        times = [witness.now()]
        roofline_step.mark(k, kind=roofline_step.BEGIN)
        times.append(witness.now())
        time.sleep(seconds)
        times.append(witness.now())
        roofline_step.mark(k, kind=roofline_step.END)
        times.append(witness.now())
        print(json.dumps({"step": k, "times": times}), flush=True)
    witness.close()


if __name__ == "__main__":
    main()
