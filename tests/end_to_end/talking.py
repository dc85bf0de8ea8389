"""A rank of a pretended job that talks: real bytes over a real socket, phases and collectives as hooks say.

python talking.py STEPS SECONDS_PER_STEP EXAMPLES
"""

import os
import socket
import sys
import threading
import time

import roofline_step

KERNEL = (
    "onednn_verbose,v1,{stamp:.6f},primitive,exec,cpu,matmul,brg:avx512_core,undef,"
    "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,512x512:512x512,1.5"
)


def echo(listener):
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)


def connected():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo, args=(listener,), daemon=True).start()
    return socket.create_connection(listener.getsockname())


def exchange(connection, size):
    connection.sendall(bytes(size))
    left = size
    while left:
        left -= len(connection.recv(min(left, 65536)))


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def main():
    steps, seconds, examples = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    connection = connected()
    amid = None
    for k in range(steps):
        waited = time.monotonic_ns()
        with roofline_step.step(k, examples=examples):
            time.sleep(0.002)
            fed = time.monotonic_ns()
            work(seconds / 2)
            middle = time.monotonic_ns()
            work(seconds / 2)
            exchange(connection, 4096 * (k % 3 + 1))
            if os.environ.get("ONEDNN_VERBOSE"):
                print(KERNEL.format(stamp=time.time() * 1000 - 1.5), flush=True)
        spans = [("phase.input", waited, fed, None, 1)]
        if amid is not None:
            # A collective that reached from the middle of the step before into this one.
            spans.append(("engine.allreduce", amid, fed, 4096, 1))
        roofline_step.send_spans(spans)
        amid = middle
    # Two samples later the last step has one behind it.
    time.sleep(0.3)


if __name__ == "__main__":
    main()
