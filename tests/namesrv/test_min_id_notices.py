"""Code 905: brokers of one name hear that their smallest id changed, when `notifyMinBrokerIdChanged` asks for it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from broker_impl.broker import RunningServers, run
from broker_impl.env import Env
from broker_impl.namesrv.notices import NOTICES_MAX, Notices
from broker_impl.namesrv.registrations import MinIdChanged, Registration
from broker_impl.node import MAIN_LISTENER
from rmq_net.shell import bind
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import RequestCode
from rmq_wire.command import ONE_WAY, Command
from rmq_wire.conversation import Conversation
from rmq_wire.headers.replication import NotifyMinBrokerIdChange
from tests.support.engine_session import EngineSession
from tests.support.exchange import broker, register_body, topic
from tests.support.talk import PATIENCE_S

ON = {"notifyMinBrokerIdChanged": "true"}
MASTER, FIRST, SECOND = "127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931"


def register(session: EngineSession, who: str, number: int = 0, port: int = 10911, acting: str | None = "true") -> None:
    ext = broker(number=number, port=port) | ({} if acting is None else {"enableActingMaster": acting})
    assert session.ask(103, ext, register_body(topic("T1"), topic("T2"), counter=1), who=who).code == 0


def said(session: EngineSession) -> list[tuple[str, dict[str, str]]]:
    """What is to be sent now: address and fields; each a one-way 905 and nothing else."""
    found = []
    for addr, frames in session.server.notices.take().items():
        for command in Conversation().feed(b"".join(frames)):
            assert isinstance(command, Command)
            assert (command.code, command.flag, bytes(command.body)) == (RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ONE_WAY, b"")
            assert command.header(NotifyMinBrokerIdChange).min_broker_id is not None
            found.append((addr, command.ext_map()))
    return found


def test_slaves_are_notified_of_a_master_that_comes_and_all_that_are_left_of_one_that_goes(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path), ON)
    due: list[int] = []
    session.server.notices.on_due = lambda: due.append(1)
    register(session, "s1", 1, 10921)
    register(session, "s2", 2, 10931)
    assert said(session) == []
    assert not due
    register(session, "m")
    gained = {"minBrokerId": "0", "minBrokerAddr": MASTER, "haBrokerAddr": broker()["haServerAddr"]}
    assert said(session) == [(FIRST, gained), (SECOND, gained)]
    session.close("m")
    lost = {"minBrokerId": "1", "minBrokerAddr": FIRST, "offlineBrokerAddr": MASTER}
    assert said(session) == [(FIRST, lost), (SECOND, lost)]
    session.close("s2")
    assert said(session) == [], "the smallest id is the same"
    assert len(due) == 2


def test_those_who_stay_are_notified_once_of_brokers_that_go_together(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path), ON)
    register(session, "both", 0, 10911)
    register(session, "both", 1, 10921)
    register(session, "s2", 2, 10931)
    session.close("both")
    assert said(session) == [(SECOND, {"minBrokerId": "2", "minBrokerAddr": SECOND, "offlineBrokerAddr": FIRST})]


@pytest.mark.parametrize(("options", "acting"), [({}, "true"), (ON, None), (ON, "false")])
def test_nobody_is_notified_unless_the_key_and_the_brokers_ask_for_it(
    tmp_path: Path, options: dict[str, str], acting: str | None
) -> None:
    """A loss is notified only when the brokers act as masters, as in Java."""
    session = EngineSession(str(tmp_path), options)
    register(session, "m", acting=acting)
    register(session, "s", 1, 10921, acting=acting)
    session.close("m")
    assert said(session) == []


def test_the_key_counts_at_once(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path))
    assert session.ask(318, body=b"notifyMinBrokerIdChanged=true").code == 0
    register(session, "s", 1, 10921)
    register(session, "m")
    assert [addr for addr, _ in said(session)] == [FIRST]


def test_what_nobody_takes_is_bounded() -> None:
    notices = Notices(Env().log)
    for number in range(NOTICES_MAX + 5):
        notices.min_id_changed(MinIdChanged([f"h:{number}"], 0, "h:0", None, None))
    taken = notices.take()
    assert len(taken) == NOTICES_MAX
    assert f"h:{NOTICES_MAX + 4}" in taken
    assert notices.take() == {}


def _embedded(number: int, addr: str) -> Registration:
    topics: Any = {name: TopicConfig(topic_name=name) for name in ("T1", "T2")}
    return Registration("C", "b", number, addr, None, topics, DataVersion(counter=1), acting_master=True)


async def test_they_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Over sockets, in order; a broker that cannot be reached is logged with the reason and holds nobody up."""
    arrived: list[tuple[int, dict[str, str]]] = []
    enough, stop = trio.Event(), trio.Event()

    async def slave(stream: trio.SocketStream) -> None:
        conversation = Conversation()
        async for data in stream:
            for command in conversation.feed(data):
                assert isinstance(command, Command)
                arrived.append((command.code, command.ext_map()))
        if len(arrived) == 2:
            enough.set()

    async def ready() -> None:
        pass

    session = EngineSession(str(tmp_path), ON)
    session.driver.run()
    names = session.server
    servers = RunningServers(names, [(bind("127.0.0.1", 0), MAIN_LISTENER)], (), plain_streams=True)
    silent = socket.socket()  # has a port, and takes no connections
    silent.bind(("127.0.0.1", 0))
    unreachable = f"127.0.0.1:{silent.getsockname()[1]}"
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(
                lambda task_status: trio.serve_tcp(slave, 0, host="127.0.0.1", task_status=task_status)
            )
            addr = f"127.0.0.1:{listener.socket.getsockname()[1]}"
            nursery.start_soon(run, servers, ready, stop)
            for number, other in ((1, addr), (2, unreachable), (3, "no address"), (0, MASTER)):
                names.embed(_embedded(number, other))
            names.table._remove([("C", MASTER)])
            await enough.wait()
            stop.set()
            nursery.cancel_scope.cancel()
    silent.close()
    assert [(code, fields["minBrokerId"]) for code, fields in arrived] == [(905, "0"), (905, "1")]
    lines = [record.getMessage() for record in caplog.records if record.name == "rmq.namesrv"]
    assert any(f"broker {unreachable} was not notified" in line and "Connection refused" in line for line in lines)
    assert any("broker no address was not notified" in line for line in lines)
