"""Makes the golden store `store-5.5.0-pop` in `conformance/golden`: a real broker, stopped with popped messages in flight.

    python -m tests.java.golden_pop

One group pops from two queues; some messages are acknowledged, one by one and in a batch, one is given more time, some come again
by way of the retry topic and are popped anew.  Files as in `golden_store`; told.json holds what is in flight, by the receipts.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rmq_wire.bodies.pop import BatchAck, BatchAckMessageRequestBody, bits_text
from rmq_wire.headers.pop import AckMessage, BatchAckMessage, ChangeInvisibleTime, PopMessage, PopMessageResponse
from rmq_wire.names import pop_retry_topic
from tests.java.golden import GOLDEN
from tests.java.golden_store import _keep
from tests.support.golden import SMALL_FILES
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.requests import create_topic, pairs, send
from tests.support.subject import start_subject
from tests.support.talk import Talk

NAME = f"store-{REFERENCE}-pop"
TOPIC, GROUP = "popped", "GID_pop"
LONG_MS, SHORT_MS = 300_000, 3_000
SENT = 6
"""To each of two queues."""


class Popper:
    """Pops and says what is in flight: (topic, queue, offset) -> when it may come again."""

    def __init__(self, talk: Talk, broker: str) -> None:
        self.talk = talk
        self.broker = broker
        self.in_flight: dict[tuple[str, int, int], int] = {}

    def pop(self, queue_id: int, count: int, invisible_ms: int, topic: str = TOPIC) -> PopMessageResponse | None:
        asked = PopMessage(
            consumer_group=GROUP,
            topic=topic,
            queue_id=queue_id,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            poll_time=0,
            born_time=0,
            init_mode=0,
        )
        answer = self.talk.ask(asked)
        if answer.code != 0:
            return None
        header = PopMessageResponse.decode(answer.ext_map())
        for entry in (header.msg_offset_info or "").split(";"):
            flag, queue, offsets = entry.split(" ")
            place = TOPIC if flag == "0" else pop_retry_topic(TOPIC, GROUP)
            for offset in offsets.split(","):
                self.in_flight[place, int(queue), int(offset)] = header.pop_time + header.invisible_time
        return header

    def receipt(self, header: PopMessageResponse, start: int, queue_id: int, offset: int) -> str:
        return f"{start} {header.pop_time} {header.invisible_time} {header.revive_qid} 0 {self.broker} {queue_id} {offset}"

    def ack(self, header: PopMessageResponse, start: int, queue_id: int, offset: int) -> None:
        extra = self.receipt(header, start, queue_id, offset)
        asked = AckMessage(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, extra_info=extra, offset=offset)
        assert self.talk.ask(asked).code == 0
        del self.in_flight[TOPIC, queue_id, offset]

    def ack_several(self, header: PopMessageResponse, start: int, queue_id: int, *offsets: int) -> None:
        one = BatchAck(
            group=GROUP,
            topic=TOPIC,
            retry="0",
            start_offset=start,
            queue_id=queue_id,
            revive_queue=header.revive_qid,
            pop_time=header.pop_time,
            invisible_time=header.invisible_time,
            bits=bits_text(offset - start for offset in offsets),
        )
        assert (
            self.talk.ask(BatchAckMessage(), BatchAckMessageRequestBody(broker_name=self.broker, acks=[one]).encode()).code == 0
        )
        for offset in offsets:
            del self.in_flight[TOPIC, queue_id, offset]

    def postpone(self, header: PopMessageResponse, start: int, queue_id: int, offset: int) -> None:
        extra = self.receipt(header, start, queue_id, offset)
        asked = ChangeInvisibleTime(
            consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, extra_info=extra, offset=offset, invisible_time=2 * LONG_MS
        )
        answer = self.talk.ask(asked)
        assert answer.code == 0
        said = answer.ext_map()
        self.in_flight[TOPIC, queue_id, offset] = int(said["popTime"]) + int(said["invisibleTime"])


def make_store() -> None:
    """Fill and keep."""
    target = GOLDEN / NAME
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        subject = start_subject("java", Path(scratch), properties=SMALL_FILES)
        try:
            with Talk(subject.address) as talk:
                told = fill(talk, subject.broker_name)
            subject.server.stop()
        finally:
            subject.end()
        _keep(subject.store, target)
        (target / "told.json").write_text(json.dumps(told, indent=1) + "\n")


def fill(talk: Talk, broker: str) -> list[dict[str, Any]]:
    """What is in flight at the end."""
    assert talk.ask(create_topic(TOPIC, 2)).code == 0
    for number in range(2 * SENT):
        assert (
            talk.ask(send(TOPIC, number % 2, pairs(UNIQ_KEY=f"7F000001{number:024X}", TAGS="a")), b"body %d" % number).code == 0
        )
    popper = Popper(talk, broker)
    soon = popper.pop(0, 2, SHORT_MS)
    assert soon is not None
    popper.ack(soon, 0, 0, 0)
    del popper.in_flight[TOPIC, 0, 1]  # it comes again

    def again() -> bool:
        return popper.pop(0, 1, LONG_MS, pop_retry_topic(TOPIC, GROUP)) is not None

    until(again, "the copy in the retry topic")
    first, second = popper.pop(0, 3, LONG_MS), popper.pop(1, 4, LONG_MS)
    assert first is not None
    assert second is not None
    popper.ack(first, 2, 0, 3)
    popper.ack_several(second, 0, 1, 0, 2)
    popper.postpone(second, 0, 1, 3)
    return [
        {"topic": topic, "queueId": queue_id, "offset": offset, "due": due}
        for (topic, queue_id, offset), due in sorted(popper.in_flight.items())
    ]


if __name__ == "__main__":
    make_store()
