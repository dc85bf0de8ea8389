"""Files of interfaces, and of ports of InfiniBand."""

from __future__ import annotations

HEAD = "Inter-|   Receive                |  Transmit\n face |bytes packets errs drop fifo frame|bytes\n"


def line(name: str, received: int, sent: int, dropped: int = 0) -> str:
    return f"{name:>6}:{received} 10 0 {dropped} 0 0 0 0 {sent} 20 0 1 0 0 0 0\n"


def interface(name: str, flags: str = "0x1003", speed: str = "", physical: bool = True) -> dict[str, str]:
    where = f"sys/class/net/{name}"
    found = {f"{where}/flags": f"{flags}\n", f"{where}/speed": f"{speed}\n"}
    return found | ({f"{where}/device/vendor": "0x15b3\n"} if physical else {})


def port(card: str, number: int, **values: str) -> dict[str, str]:
    where = f"sys/class/infiniband/{card}/ports/{number}"
    files = {
        "state": "4: ACTIVE",
        "rate": "100 Gb/sec (4X EDR)",
        "counters/port_rcv_data": "1000",
        "counters/port_xmit_data": "2000",
        "counters/port_rcv_packets": "30",
        "counters/port_xmit_packets": "40",
        "counters/port_xmit_discards": "5",
    }
    return {f"{where}/{name}": f"{text}\n" for name, text in {**files, **values}.items()}
