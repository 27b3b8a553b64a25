"""Ports for servers: reserved with their neighbours until the server has ended, whatever else is started meanwhile."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.subjects.ours import OurNameServer
from conformance.subjects.ports import (
    BROKER_PORTS,
    RANGE_VARIABLE,
    NoPort,
    port_range,
    release_port,
    reserve_exactly,
    reserve_port,
)


@pytest.fixture(autouse=True)
def few_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three brokers, if nobody else listens there."""
    first = next(port for port in range(9_000, 11_000, 20) if all(_bindable(port + more) for more in range(12)))
    monkeypatch.setenv(RANGE_VARIABLE, f"{first}-{first + 12}")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def reserve_all(*offsets: int) -> list[int]:
    """Reserve until there is none."""
    taken: list[int] = []
    with contextlib.suppress(NoPort):
        while True:
            taken.append(reserve_port(*offsets))
    return taken


def around(port: int) -> set[int]:
    return {port + offset for offset in BROKER_PORTS}


def test_no_two_brokers_share_a_port_and_none_leaves_the_range() -> None:
    taken = reserve_all(*BROKER_PORTS)
    used = [port for each in taken for port in around(each)]
    assert taken
    assert len(set(used)) == len(used)
    assert set(used) <= set(port_range())
    for port in taken:
        release_port(port)
    again = reserve_port(*BROKER_PORTS)
    assert again in port_range()
    release_port(again)


def test_another_process_keeps_away_until_its_owner_is_gone() -> None:
    code = "from conformance.subjects.ports import *; print(sorted(reserve_port() for _ in port_range()), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == str(list(port_range()))
        with pytest.raises(NoPort):
            reserve_port()
        other.kill()
    release_port(reserve_port())


def test_a_port_of_no_range_is_one_run_s_at_a_time() -> None:
    port = port_range().stop + 1
    code = "from conformance.subjects.ports import *; import sys; print(reserve_exactly(int(sys.argv[1])), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not reserve_exactly(port)
        other.kill()
    assert reserve_exactly(port)
    release_port(port)
    assert reserve_exactly(port)
    release_port(port)


def test_a_port_where_somebody_listens_is_not_free() -> None:
    kept = port_range()[5]
    with socket.create_server(("127.0.0.1", kept)):
        taken = reserve_all()
        assert sorted(taken) == [port for port in port_range() if port != kept]
    for port in taken:
        release_port(port)


def test_a_server_keeps_its_port_over_a_restart_and_gives_it_back_at_its_end(tmp_path: Path) -> None:
    server = OurNameServer(tmp_path).start()
    server.stop()
    others = reserve_all()
    assert server.port not in others
    server.start()
    server.end()
    assert reserve_port() == server.port
    for port in (*others, server.port):
        release_port(port)


@pytest.mark.parametrize("text", ["", "12000", "12000-", "900-2000", "5-4", "20000-70000", "a-b"])
def test_a_range_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RANGE_VARIABLE, text)
    if not text:
        assert port_range() == range(12_000, 32_000)
    else:
        with pytest.raises(NoPort, match=RANGE_VARIABLE):
            port_range()
