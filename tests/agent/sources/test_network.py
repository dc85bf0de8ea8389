"""Traffic of interfaces and ports: from made-up files, and a transfer of known size on a real loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.sources.network import METRICS, NetworkSource, parse_interfaces

from tests.fakes import wait_for

from .network_files import HEAD, interface, line, port
from .trees import CLOCK, rows, settings, write

Row = dict[str, int | float | None]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[NetworkSource]:
    write(tmp_path, {"proc/net/dev": HEAD + line("lo", 5, 5) + line("eth0", 300, 70, 2)})
    write(tmp_path, interface("eth0", speed="25000") | interface("lo", "0x9", physical=False))
    source = NetworkSource(settings(tmp_path))
    yield source
    source.close()


def look(source: NetworkSource) -> dict[str, Row]:
    CLOCK.advance(60)  # the last look was long ago
    return rows(source)


def test_each_interface_has_a_row_with_its_link(source: NetworkSource) -> None:
    assert source.probe().works
    found = look(source)
    assert list(found) == ["lo", "eth0"]
    assert list(found["eth0"].values()) == [300, 70, 10, 20, 3, 25_000 * 125_000]
    assert found["lo"]["nic_link_bytes_per_second"] is None
    assert all(row.rank is None for row in source.sample([]))


@pytest.mark.parametrize("speed", ["-1", "", "0", "fast"])
def test_speed_the_driver_does_not_know_is_absent(source: NetworkSource, tmp_path: Path, speed: str) -> None:
    write(tmp_path, interface("eth0", speed=speed))
    assert look(source)["eth0"]["nic_link_bytes_per_second"] is None


def test_virtual_link_has_no_speed_but_a_bond(source: NetworkSource, tmp_path: Path) -> None:
    names = ("eth0", "bond0", "vb")
    write(tmp_path, {"proc/net/dev": HEAD + "".join(line(name, 1, 1) for name in names)})
    for name in names[1:]:
        write(tmp_path, interface(name, speed="10000", physical=False))
    write(tmp_path, {"sys/class/net/bond0/bonding/mode": "802.3ad 4\n"})
    found = look(source)
    assert found["bond0"]["nic_link_bytes_per_second"] == 1_250_000_000
    assert found["vb"]["nic_link_bytes_per_second"] is None


def test_only_interfaces_that_count_have_rows(source: NetworkSource, tmp_path: Path) -> None:
    names = ("lo", "eth0", "ens9", "docker0", "br1", "veth1", "wlan0")
    traffic = {"docker0": 0, "wlan0": 0}
    write(
        tmp_path,
        {"proc/net/dev": HEAD + "".join(line(n, traffic.get(n, 9), traffic.get(n, 9)) for n in names)},
    )
    write(tmp_path, interface("ens9", flags="0x1002"))  # a card that is down
    write(tmp_path, interface("wlan0"))  # one that is up and idle
    write(tmp_path, interface("docker0", physical=False) | interface("br1", physical=False))
    write(tmp_path, interface("veth1", physical=False) | {"sys/class/net/veth1/brport/state": "3\n"})
    assert set(look(source)) == {"lo", "eth0", "wlan0", "br1"}


def test_interface_that_comes_and_goes(source: NetworkSource, tmp_path: Path) -> None:
    look(source)
    write(tmp_path, {"proc/net/dev": HEAD + line("lo", 5, 5) + line("eth1", 1, 1)} | interface("eth1"))
    assert set(rows(source)) == {"lo", "eth1"}, "seen at once"
    rmtree(tmp_path / "sys/class/net")
    write(tmp_path, {"proc/net/dev": "nonsense\n"})
    assert look(source) == {}


def test_few_of_many_interfaces_are_kept_and_cards_first(source: NetworkSource, tmp_path: Path) -> None:
    many = "".join(line(f"tap{i}", 1, 1) for i in range(100))
    write(tmp_path, {"proc/net/dev": HEAD + many + line("lo", 5, 5) + line("eth0", 300, 70)})
    found = look(source)
    assert len(found) == 32 and {"lo", "eth0"} <= set(found)


def test_no_list_is_no_source(tmp_path: Path) -> None:
    status = NetworkSource(settings(tmp_path)).probe()
    assert not status.works and "lists no network interface" in status.reason


def test_namespace_of_its_own_is_reported(source: NetworkSource, tmp_path: Path) -> None:
    for pid, space in (("self", "net:[2]"), ("1", "net:[1]")):
        (tmp_path / f"proc/{pid}/ns").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/ns/net").symlink_to(space)
    assert "namespace of its own" in source.probe().reason


NUMBERS = st.one_of(st.integers(-9, 2**70).map(lambda number: b"%d" % number), st.binary(max_size=8))
LINES = st.builds(bytes.__add__, st.sampled_from([b"lo:", b"\xff:", b""]), st.lists(NUMBERS).map(b" ".join))


@given(st.lists(LINES).map(b"\n".join))
def test_garbage_is_no_error_and_leaves_the_interfaces(data: bytes) -> None:
    whole = b"eth0: 1 2 3 4 5 6 7 8 9 8 7 6"
    assert parse_interfaces(b"\n".join((data, whole, data)))["eth0"] == (1, 9, 2, 8, 10)


def test_name_that_cannot_be_shown_is_left_out() -> None:
    assert parse_interfaces(b"e\x01:1 2 3 4 5 6 7 8 9 8 7 6\n :1 2 3 4 5 6 7 8 9 8 7 6\n") == {}


@pytest.mark.parametrize(
    "rate", ["1..2 Gb/sec", ". Gb/sec", "9" * 400 + " Gb/sec", "fast", "2.5 Gb/sec (1X SDR)"]
)
def test_rate_is_a_number_or_absent(source: NetworkSource, tmp_path: Path, rate: str) -> None:
    write(tmp_path, port("mlx5_0", 1, rate=rate))
    expected = 312_500_000 if rate.startswith("2.5") else None
    assert look(source)["mlx5_0:1"]["nic_link_bytes_per_second"] == expected


def test_name_that_touches_its_first_number_is_read() -> None:
    text = b"eth0.100:1234567890 1 2 3 4 5 6 7 9 8 7 6 5 4 3 2\n"
    assert parse_interfaces(text) == {"eth0.100": (1234567890, 9, 1, 8, 9)}


def test_port_counts_words_of_four_bytes(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx5_0", 1))
    found = look(source)["mlx5_0:1"]
    assert list(found.values()) == [4000, 8000, 30, 40, 5, 12_500_000_000]


def test_port_is_read_once_a_second(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx5_0", 1))
    assert "mlx5_0:1" in look(source)
    assert set(rows(source)) == {"lo", "eth0"}


def test_port_that_is_down_has_no_row(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx5_0", 1) | port("mlx5_0", 2, state="1: DOWN"))
    assert set(look(source)) == {"lo", "eth0", "mlx5_0:1"}
    write(tmp_path, port("mlx5_0", 1, state="1: DOWN"))
    assert set(look(source)) == {"lo", "eth0"}


def test_old_counter_that_is_full_is_absent(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx4_0", 1, **{"counters/port_rcv_data": str(2**32 - 1)}))
    found = look(source)["mlx4_0:1"]
    assert (found["nic_received_bytes"], found["nic_sent_bytes"]) == (None, 8000)


def test_wide_counters_of_an_old_kernel_go_first(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx4_0", 1, **{"counters_ext/port_rcv_data_64": str(2**33)}))
    assert look(source)["mlx4_0:1"]["nic_received_bytes"] == 2**35


def test_port_with_files_missing_or_malformed_keeps_the_others(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx5_0", 1, rate="", **{"counters/port_xmit_data": "N/A (no PMA)"}))
    (tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_discards").unlink()
    assert list(look(source)["mlx5_0:1"].values()) == [4000, None, 30, 40, None, None]


def test_port_of_a_card_that_is_pulled_out_has_no_row(source: NetworkSource, tmp_path: Path) -> None:
    write(tmp_path, port("mlx5_0", 1))
    look(source)
    rmtree(tmp_path / "sys/class/infiniband")
    assert set(look(source)) == {"lo", "eth0"}


def test_transfer_on_the_loopback_is_counted() -> None:
    source = NetworkSource(settings())
    assert source.probe().works
    before = look(source)["lo"]
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as a,
    ):
        b = listener.accept()[0]
        with b:
            for _ in range(30):
                a.sendall(bytes(100_000))
                left = 100_000
                while left:
                    left -= len(b.recv(left))
    after = look(source)["lo"]
    for name in ("nic_sent_bytes", "nic_received_bytes"):
        assert 3_000_000 <= after[name] - before[name] < 20_000_000  # type: ignore[operator]
    source.close()


def test_this_machine_is_seen_as_psutil_sees_it() -> None:
    source = NetworkSource(settings())

    def alike() -> bool:
        before = psutil.net_io_counters(pernic=True)
        found = look(source)
        after = psutil.net_io_counters(pernic=True)
        return all(
            before[name].bytes_recv <= row["nic_received_bytes"] <= after[name].bytes_recv  # type: ignore[operator]
            and before[name].packets_sent <= row["nic_sent_packets"] <= after[name].packets_sent  # type: ignore[operator]
            for name, row in found.items()
            if ":" not in name
        )

    assert wait_for(alike)
    assert len(METRICS) == len(look(source)["lo"])
    source.close()
