"""How much one pull takes, of what is in memory and of what is not, and which broker it is told to ask next: on both brokers.

What is further behind the log's end than `accessMessageInMemoryMaxRatio` per cent of the memory of the machine counts as not in
memory: with 0 everything does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.java.flows import producer, push
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.requests import create_topic, pull, units
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import Talk

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
LIMITS = {
    "maxTransferCountOnMessageInMemory": "5",
    "maxTransferBytesOnMessageInMemory": "30000",
    "maxTransferCountOnMessageInDisk": "3",
    "maxTransferBytesOnMessageInDisk": "15000",
    "slaveReadEnable": "true",
}
SMALL, LARGE = 10, 7_000
MESSAGES = 12
BROKER, WHEN_SLOW = 3, 2


class Reach(NamedTuple):
    """What a pull gets of such messages, and whom it is to ask next."""

    ratio: int
    small: int
    large: int
    suggested: int


REACHES = [Reach(40, small=5, large=4, suggested=BROKER), Reach(0, small=3, large=2, suggested=WHEN_SLOW)]


class Running(NamedTuple):
    subject: Subject
    reach: Reach


@pytest.fixture(
    scope="module", params=[(kind, reach) for kind in SUBJECTS for reach in REACHES], ids=lambda p: f"{p[0]}-{p[1].ratio}"
)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with small limits, whose messages are all in memory or all not."""
    java()
    kind, reach = request.param
    properties = {**LIMITS, "accessMessageInMemoryMaxRatio": str(reach.ratio)}
    subject = start_subject(kind, tmp_path_factory.mktemp("pulls"), properties=properties)
    yield Running(subject, reach)
    subject.end()


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_each_limit_ends_a_pull(running: Running, clients: JavaDriver, fresh: Fresh) -> None:
    """So many messages or so many bytes, whichever comes first, one message at least; group settings say whom to ask next."""
    subject, reach = running
    group = fresh("group")
    row = ("-g", group, "-i", str(BROKER), "-w", str(WHEN_SLOW))
    made = clients.mqadmin("updateSubGroup", "-n", subject.namesrv, "-b", subject.address, *row)
    assert made.status == 0, made
    with Talk(subject.address) as talk:
        for size, count in ((SMALL, reach.small), (LARGE, reach.large), (40_000, 1)):
            topic = fresh("limits")
            assert talk.ask(create_topic(topic, queues=1)).code == 0
            for _ in range(MESSAGES):
                assert talk.send(topic, bytes(size)).code == 0
            until(lambda topic=topic: len(talk.read(topic)) == MESSAGES, "all are dispatched")  # type: ignore[misc]
            answer = talk.ask(pull(topic, consumer_group=group))
            assert (len(units(answer.body)), answer.ext_map()["nextBeginOffset"]) == (count, str(count))
            assert answer.ext_map()["suggestWhichBrokerId"] == str(reach.suggested)
            answer = talk.ask(pull(topic, offset=MESSAGES, consumer_group=group))
            assert answer.ext_map()["suggestWhichBrokerId"] == str(BROKER), "nothing new: not slow"


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_a_consumer_that_is_sent_to_a_slave_comes_to_the_master_where_there_is_none(
    running: Running, clients: JavaDriver, fresh: Fresh
) -> None:
    subject, _ = running
    topic = fresh("suggested")
    with producer(clients, subject, fresh) as p, push(clients, subject, fresh, topic) as c:
        clients.call("send", producer=p, topic=topic, count=MESSAGES, body="m")
        clients.wait_messages(c, MESSAGES)
        clients.call("send", producer=p, topic=topic, count=MESSAGES, body="n")
        assert len(clients.wait_messages(c, 2 * MESSAGES)) == 2 * MESSAGES
