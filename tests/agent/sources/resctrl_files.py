"""Files of resctrl."""

from __future__ import annotations

ROOT = "sys/fs/resctrl"
INFO = {f"{ROOT}/info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n"}


def monitor(cache: int, total: object, local: object, group: str = "") -> dict[str, str]:
    where = f"{ROOT}/{group}mon_data/mon_L3_{cache:02}"
    return {
        f"{where}/mbm_total_bytes": f"{total}\n",
        f"{where}/mbm_local_bytes": f"{local}\n",
        f"{where}/llc_occupancy": "4096\n",
    }


def cpu(number: int, cache: int, socket: int) -> dict[str, str]:
    where = f"sys/devices/system/cpu/cpu{number}"
    return {
        f"{where}/cache/index3/id": f"{cache}\n",
        f"{where}/topology/physical_package_id": f"{socket}\n",
    }
