"""`mqadmin` with a stored message: a stock consumer is handed it at once (309) and its answer printed; or it is sent again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.java.flows import producer, pull_all
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.subject import Subject

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]


@pytest.mark.parametrize(("failures", "answer"), [(0, "CR_SUCCESS"), (1, "CR_LATER")])
def test_one_message_is_consumed_directly(
    subject: Subject, clients: JavaDriver, fresh: Fresh, failures: int, answer: str
) -> None:
    topic, group, name = fresh("direct"), fresh("group"), fresh("consumer")
    with producer(clients, subject, fresh, queues=1) as p:
        [sent] = clients.call("send", producer=p, topic=topic, body="m")
        start = {"name": name, "group": group, "namesrv": subject.namesrv, "topic": topic, "failures": failures}
        identity = clients.call("push.start", **start)
        try:
            clients.wait_messages(name, 1)
            call = ("queryMsgByUniqueKey", "-n", subject.namesrv, "-t", topic, "-i", sent["msg_id"], "-g", group, "-d", identity)
            told = until(lambda: _printed(clients, call, answer), answer)
            assert "remark" in told
            assert [m["body"] for m in clients.messages(name)][:2] == ["m", "m"]
        finally:
            clients.call("push.stop", consumer=name)


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_one_message_is_sent_again(subject: Subject, clients: JavaDriver, fresh: Fresh) -> None:
    """`queryMsgById -s`: the same message, with the id that its producer gave it."""
    topic = fresh("again")
    with producer(clients, subject, fresh, queues=1) as p:
        [sent] = clients.call("send", producer=p, topic=topic, body="m", tags="T", keys="k")
        call = ("queryMsgById", "-n", subject.namesrv, "-t", topic, "-i", sent["offset_msg_id"], "-s", "true")
        printed = clients.mqadmin(*call)
        assert "SEND_OK" in printed.out, printed
        found = pull_all(clients, subject, fresh, topic, 2)[:2]  # a tool that waits for 5 s is asked again
    assert [(m["body"], m["tags"], m["keys"], m["msg_id"]) for m in found] == [("m", "T", "k", sent["msg_id"])] * 2
    assert [m["offset"] for m in found] == [0, 1]


def _printed(clients: JavaDriver, call: tuple[str, ...], answer: str) -> str:
    printed = clients.mqadmin(*call)
    return printed.out if answer in printed.out else ""
