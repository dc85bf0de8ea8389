"""A TCP stream on plain sockets: `receive SECONDS` prints its port, then byte/s; `send HOST PORT` feeds it.

The first half second is not counted.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time


def receive(seconds: float) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        begin = time.monotonic() + 0.5
        got, since, now = 0, begin, begin
        while now < begin + seconds:
            data = connection.recv(1 << 16)
            now = time.monotonic()
            if now < begin:
                since = now
            else:
                got += len(data)
        connection.close()
        print(got / (now - since), flush=True)


def send(host: str, port: int) -> None:
    with contextlib.suppress(OSError), socket.create_connection((host, port)) as connection:
        while True:
            connection.sendall(bytes(1 << 16))


if __name__ == "__main__":
    receive(float(sys.argv[2])) if sys.argv[1] == "receive" else send(sys.argv[2], int(sys.argv[3]))
