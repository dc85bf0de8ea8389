"""Files of power zones."""

from __future__ import annotations

ZONES = "sys/class/powercap"
TOP = 262_143_328_850


def zone(name: str, called: str, microjoules: int, top: int = TOP) -> dict[str, str]:
    where = f"{ZONES}/{name}"
    return {
        f"{where}/name": f"{called}\n",
        f"{where}/energy_uj": f"{microjoules}\n",
        f"{where}/max_energy_range_uj": f"{top}\n",
    }


TWO_SOCKETS = {
    f"{ZONES}/intel-rapl/enabled": "1\n",
    **zone("intel-rapl:0", "package-0", 5_000_000),
    **zone("intel-rapl:0:0", "core", 1_500_000),
    **zone("intel-rapl:0:1", "dram", 700_000),
    **zone("intel-rapl:0:2", "uncore", 1),
    **zone("intel-rapl:1", "package-1", 6_000_000),
    **zone("intel-rapl:1:0", "dram", 900_000),
    **zone("intel-rapl:2", "psys", 99_000_000),
}
