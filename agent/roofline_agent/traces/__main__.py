"""Reads a trace: `python -m roofline_agent.traces DONE OUT`.

DONE is what the hooks wrote when the trace was complete, OUT where what was read goes (handing.py). It is a
process of its own, with a bound on its memory, as reading takes seconds and the wrapper has output to
forward.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from roofline_agent.recorded.errors import RecordedError
from roofline_agent.traces.handing import parse_done, write
from roofline_agent.traces.steps import Unreadable, read

MEMORY_BYTES = 4 << 30


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    done_path, out = map(Path, sys.argv[1:])
    try:
        done = parse_done(done_path)
        write(read(done.trace, done.steps, done.unix_minus_node_ns), out)
    except MemoryError:
        print(f"reading it takes more than {MEMORY_BYTES >> 30} GiB of memory", file=sys.stderr)
        return 1
    except (Unreadable, RecordedError, OSError, ValueError, KeyError, TypeError) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
