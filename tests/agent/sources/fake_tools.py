"""Doubles of command-line tools: shell scripts, and recorded /proc and /sys trees, written into tmp_path."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

# Printed by perf 6.1 where it may not count.
REFUSED = """Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
access to performance monitoring and observability operations for processes
without CAP_PERFMON, CAP_SYS_PTRACE or CAP_SYS_ADMIN Linux capability.
"""

# A perf that answers for each event by the first rule whose pattern is found in it: a value and a unit, or
# "fail". Its calls are kept next to it. With -I it prints two intervals and waits.
_COUNTING = """#!{python} -IS
import json, re, sys, time
arguments = sys.argv[1:]
with open(__file__ + ".calls", "a") as file:
    file.write(json.dumps(arguments) + "\\n")
events = arguments[arguments.index("-e") + 1]
names = re.findall(r"[^/,{{}}]+/[^/]*/|[^/,{{}}]+", events)
goes_on = "-I" in arguments
for seconds in ("1.0;", "2.0;") if goes_on else ("",):
    for name in names:
        value, unit = next(answer for pattern, *answer in {rules!r} if re.search(pattern, name))
        if value == "fail":
            sys.exit("event syntax error: '" + name + "'")
        for socket in ("S0;1;", "S1;1;") if "--per-socket" in arguments else ("",):
            sys.stderr.write(f"{{seconds}}{{socket}}{{value}};{{unit}};{{name}};1000;100.00;;\\n")
sys.stderr.flush()
if goes_on:
    time.sleep(600)
"""

Rule = tuple[str, str, str]


def counting_perf(directory: Path, *rules: Rule) -> Path:
    """A perf that counts as the rules say: (pattern of the event, value, unit); 5 of all others."""
    path = directory / "perf"
    path.write_text(_COUNTING.format(python=sys.executable, rules=[*rules, ("", "5", "")]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def calls_of(perf: Path) -> list[list[str]]:
    """The arguments of each call, in order."""
    return [json.loads(line) for line in Path(f"{perf}.calls").read_text().splitlines()]


def script(directory: Path, body: str, name: str = "perf") -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def proc_tree(
    root: Path, cpuinfo: str, paranoid: int | None = -1, capabilities: int = 0, seccomp: int = 0
) -> Path:
    """What permission and CPU are read from."""
    (root / "sys/kernel").mkdir(parents=True)
    (root / "self").mkdir()
    (root / "cpuinfo").write_text(cpuinfo)
    (root / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\nSeccomp:\t{seccomp}\n")
    if paranoid is not None:
        (root / "sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    return root


def sys_tree(root: Path, *pmus: str) -> Path:
    for pmu in pmus:
        (root / "bus/event_source/devices" / pmu).mkdir(parents=True)
    return root


def intel(model: int) -> str:
    one = (
        f"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\nflags\t\t: fpu\n\n"
    )
    return one + one


def amd(family: int, model: int) -> str:
    return f"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: {model}\n\n"


def arm(part: int) -> str:
    return f"processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: {part:#x}\n\n"
