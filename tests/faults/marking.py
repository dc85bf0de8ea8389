"""A training that marks steps until its standard input ends, then prints how many: python marking.py"""

import select
import sys
import time

import roofline_step


def main():
    count = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        with roofline_step.step(count, examples=32):
            time.sleep(0.005)
        count += 1
    print(count, flush=True)


if __name__ == "__main__":
    main()
