"""Files of control groups, of both versions."""

from __future__ import annotations

from roofline_agent.records import Rank

ROOT = "sys/fs/cgroup"
V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "".join(
    f"{40 + n} 23 0:{n} / /sys/fs/cgroup/{name} rw shared:9 - cgroup cgroup rw,{name}\n"
    for n, name in enumerate(("cpu", "cpuacct", "memory", "pids"))
)


def v2(path: str, cpu_max: str = "max 100000", memory_max: str = "max", used: int = 0) -> dict[str, str]:
    where = f"{ROOT}/{path}"
    return {
        f"{where}/cgroup.type": "domain\n",
        f"{where}/cpu.max": f"{cpu_max}\n",
        f"{where}/cpu.stat": "usage_usec 500\nuser_usec 4\nnr_periods 9\nnr_throttled 3\nthrottled_usec 70\n",
        f"{where}/memory.max": f"{memory_max}\n",
        f"{where}/memory.current": f"{used}\n",
        f"{where}/memory.events": "low 0\nhigh 0\nmax 4\noom 1\noom_kill 2\noom_group_kill 0\n",
    }


def home(rank: Rank, path: str, version: int = 2) -> dict[str, str]:
    lines = (
        f"0::{path}\n"
        if version == 2
        else f"5:memory:{path}\n3:cpuacct:{path}\n2:cpu:{path}\n1:pids:/\n0::/\n"
    )
    return {f"proc/{rank.pid}/cgroup": lines}
