"""Bugs that servers like this one have had, planted: each is caught by a check that the suite makes of ours.

Where each of them is planted:

====  ==========================================  =====================================
V1    a view kept over a turn                     tests/net/test_planted.py
V2    bytes over the cap forgotten                tests/net/test_planted.py
V3    a reply to the wrong opaque                 tests/net/test_planted.py
V4    one peer's exception closes another         tests/net/test_planted.py
V5    EAGAIN drops the rest                       tests/net/test_planted.py
V6    the output cap ignored                      tests/net/test_planted.py; held pulls here
V7    authorization by header field               there is no authorization yet
V8    a verdict cached without its code           there is no authorization yet
V9    plaintext handled before the close          there is no TLS yet
V10   a secret in answer 26                       here
V11   a newline in a configuration value          here
V12   a path from an unchecked name               here
V13   an unbounded cache of permutations          here
V14   a stale unregistration wins                 here
V15   the wall clock in a deadline                tests/net/test_planted.py
V16   the accept loop spins at EMFILE             tests/net/test_planted.py
====  ==========================================  =====================================
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_impl.capabilities import pull as pulling
from broker_impl.config import BrokerConfig
from broker_impl.engine.limits import Limits
from broker_impl.namesrv.route_table import RouteTable
from rmq_wire import names, properties
from rmq_wire.bodies import properties_text
from tests.broker.attack_checks import check_plans_are_bounded, check_secrets_are_masked, configured, unchanged
from tests.broker.siege import siege, two_topics
from tests.support.engine_session import EngineSession
from tests.support.planting import Plant, find
from tests.support.requests import SUBSCRIPTION, SUSPEND, pull, send

Check = Callable[[Path], None]


def held_pulls_respect_the_cap(tmp_path: Path) -> None:
    limits = Limits(output_bytes_max=100_000)
    with siege(tmp_path, limits=limits) as broker:
        broker.topic("T", queues=1)
        deaf = broker.connect()
        deaf.reads = False
        for _ in range(100):
            deaf.send(pull("T", flags=SUBSCRIPTION | SUSPEND))
        assert broker.witness.ask(send("T"), bytes(50_000)).code == 0
        assert deaf.peer.unsent_bytes <= limits.output_bytes_max + 51_000 + 100 * 300


def ignore_the_cap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pulling.Pull, "_wake", lambda self, held: self._look_again(held.asked, held.pending, first=False))


def secrets_are_masked(tmp_path: Path) -> None:
    path = configured(tmp_path)
    with siege(tmp_path, path=path, mySecretKey="open sesame") as broker:
        check_secrets_are_masked(broker)


def show_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerConfig, "shown", lambda self, name: self.text(name) or "")


def values_are_one_line(tmp_path: Path) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        unchanged(broker, b"maxMessageSize=4194305\nregionId=x\\nbrokerConfigPath=/tmp/evil", 29)


def take_any_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(properties_text, "is_one_line", lambda _: True)


def names_stay_below_the_store(tmp_path: Path) -> None:
    """Also past the first check of a name: the store has its own."""
    with two_topics(tmp_path) as broker:
        with broker.unharmed("topics"):
            unknown = broker.connect()
            assert unknown.ask(send("../../escaped"), b"x").code in (13, 29)
        assert not (tmp_path / "escaped").exists()


def check_no_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(names, "topic_problem", lambda _: None)
    patch.setattr(names, "path_problem", lambda _name, windows=False: None)
    patch.setattr("rmq_store.queues.queues.path_problem", lambda _name, windows=False: None)


def plans_are_bounded(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        check_plans_are_bounded(broker, 1_100)


def remember_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(properties, "PLANS_MAX", 1 << 60)


def a_stale_goodbye_changes_nothing(tmp_path: Path) -> None:
    session = EngineSession(str(tmp_path))
    header = {"brokerName": "b", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "haServerAddr": "h", "brokerId": "0"}
    topics = {"T": {"topicName": "T", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}, "U": {"topicName": "U", "perm": 6}}
    body = {"topicConfigSerializeWrapper": {"topicConfigTable": topics, "dataVersion": {"counter": 1, "timestamp": 1}}}
    for connection in ("old", "new"):
        assert session.ask(103, header, body, who=connection).code == 0
    session.ask(104, header, who="old")
    session.settled("b", [0])


def believe_every_goodbye(patch: pytest.MonkeyPatch) -> None:
    unregister = RouteTable.unregister
    patch.setattr(RouteTable, "unregister", lambda self, gone, link=None: unregister(self, gone))


PLANTED: dict[str, tuple[Check, Plant]] = {
    "V6-held-pulls": (held_pulls_respect_the_cap, ignore_the_cap),
    "V10": (secrets_are_masked, show_everything),
    "V11": (values_are_one_line, take_any_value),
    "V12": (names_stay_below_the_store, check_no_name),
    "V13": (plans_are_bounded, remember_for_ever),
    "V14": (a_stale_goodbye_changes_nothing, believe_every_goodbye),
}
every = pytest.mark.parametrize(("check", "plant"), PLANTED.values(), ids=PLANTED.keys())


@every
def test_ours_passes(tmp_path: Path, check: Check, plant: Plant) -> None:
    check(tmp_path)


@every
def test_the_bug_is_caught(tmp_path: Path, check: Check, plant: Plant) -> None:
    find(plant, check, tmp_path)
