"""Makes the golden stores of formats that are off by default, as the real broker writes them.

    python -m tests.java.golden_formats

`store-5.5.0-light`: the log in two directories, check sums in the properties, light queues.  `store-5.5.0-batch`: batch queues,
and queues with extensions.  As small as `golden_store`'s, with sizes.json beside; `told.json` says what was sent and answered.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rmq_wire.batch import Item, pack_items
from rmq_wire.codes import RequestCode
from tests.java.golden import GOLDEN
from tests.java.golden_store import _keep
from tests.support import remoting
from tests.support.golden_formats import BATCH_PROPERTIES, LIGHT_PROPERTIES, SMALL_FILES
from tests.support.java import REFERENCE
from tests.support.process import until
from tests.support.reference import JavaBroker, JavaNameServer

BORN_MS = 1_700_000_000_000


class Sender:
    """Sends with plain requests and keeps what was answered."""

    def __init__(self, broker: JavaBroker) -> None:
        self.broker = broker
        self.entries: list[dict[str, Any]] = []
        self._number = 0
        self.until: tuple[str, int] = ("", 0)
        """Where a delayed message arrives (in queue 0), and the queue's end once it has."""

    def topic(self, name: str, queues: int, attributes: str = "") -> None:
        fields = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": attributes,
        }
        answer = remoting.ask(self.broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert answer.code == 0, answer

    def send(self, topic: str, queue: int, body: bytes, properties: str = "", *, batch: bool = False) -> remoting.Answer:
        self._number += 1
        key = f"7F0000010007AAAA{self._number:016X}"
        text = properties + ("" if "UNIQ_KEY" in properties or (batch and not properties) else f"UNIQ_KEY\x01{key}\x02")
        fields = {
            "a": "P",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue),
            "f": "0",
            "g": str(BORN_MS + self._number),
            "h": "0",
            "i": text,
            "j": "0",
            "k": "false",
            "m": "true" if batch else "false",
        }
        code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
        answer = remoting.ask(self.broker.address, code, fields, body)
        self.entries.append(
            {"fields": fields, "body": body.hex(), "code": answer.code, "remark": answer.remark, "ext": answer.ext}
        )
        return answer


def fill_light(sender: Sender) -> None:
    sender.topic("Plain", 2)
    sender.topic("Lit", 2)
    for number in range(12):
        sender.send("Plain", number % 2, b"%d:" % number + b"p" * 600, f"KEYS\x01k{number}\x02TAGS\x01TagA\x02")
    for number in range(6):
        queues = ("%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,%LMQ%c,%LMQ%a")[number % 3]
        tags = f"TAGS\x01T{number % 2}\x02WAIT\x01true\x02"
        sender.send("Lit", number % 2, b"lit %d" % number, f"{tags}INNER_MULTI_DISPATCH\x01{queues}\x02")
    sender.send("Lit", 0, b"slash", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%x/y\x02")
    sender.send("Lit", 0, b"comma", "INNER_MULTI_DISPATCH\x01%LMQ%a,\x02")
    sender.send("Lit", 0, b"empty", "INNER_MULTI_DISPATCH\x01 \x02")
    sender.send("Lit", 1, b"twice", "INNER_MULTI_DISPATCH\x01%LMQ%d,%LMQ%d\x02")
    sender.send("Lit", 0, b"late", "DELAY\x011\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
    sender.until = ("Lit", 7)
    sender.send("Lit", 1, b"offsets", "INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x0177\x02")
    sender.send("Lit", 1, b"lite", "__LITE_TOPIC\x01room\x02")
    sender.send("Plain", 0, b"forged", "__CRC32#\x010123456789\x02A\x01b\x02")
    items = [
        Item(0, b"one", b"A\x01b\x02"),
        Item(3, b"two", b"A\x01b"),
        Item(0, b"three", b""),
        Item(0, b"four", b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"),
    ]
    sender.send("Plain", 1, pack_items(items), batch=True)
    sender.send("Plain", 0, b"no properties of mine")


def fill_batch(sender: Sender) -> None:
    sender.topic("Packed", 2, "+queue.type=BatchCQ")
    sender.topic("Plain", 1)
    for number in range(14):
        items = [Item(0, b"%d-%d" % (number, n), b"TAGS\x01TagB\x02") for n in range(number % 4 + 1)]
        sender.send("Packed", 0, pack_items(items), "TAGS\x01TagB\x02", batch=True)
        if number % 3 == 0:
            sender.send("Packed", 0, b"single %d" % number, "TAGS\x01TagS\x02KEYS\x01s\x02")
    sender.send("Packed", 1, pack_items([Item(0, b"x", b"A\x01b\x02"), Item(0, b"y", b"A\x01b\x02")]), batch=True)
    sender.send("Packed", 1, b"forged", "INNER_NUM\x013\x02")
    sender.send("Plain", 0, b"forged", "INNER_NUM\x013\x02")
    sender.send("Packed", 1, b"last")
    for number in range(14):
        sender.send("Plain", 0, b"%d" % number, f"TAGS\x01Tag{number % 2}\x02")
    sender.send("Plain", 0, b"late", "DELAY\x011\x02")
    sender.until = ("Plain", 15)


def _bound(broker: JavaBroker, topic: str) -> int:
    answer = remoting.ask(broker.address, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    return int(answer.ext["offset"])


def make(name: str, properties: dict[str, str], paths: tuple[str, ...], fill: Any) -> None:
    target = GOLDEN / f"store-{REFERENCE}-{name}"
    with tempfile.TemporaryDirectory() as scratch, JavaNameServer(Path(scratch) / "ns") as names:
        store = Path(scratch) / "store"
        log = {"storePathCommitLog": ",".join(str(store / path) for path in paths)}
        broker = JavaBroker(Path(scratch) / "broker", names.address, store=store, properties={**SMALL_FILES, **properties, **log})
        with broker:
            sender = Sender(broker)
            fill(sender)
            until(lambda: _bound(broker, sender.until[0]) >= sender.until[1], "the delayed message")
            broker.stop()
        shutil.rmtree(target, ignore_errors=True)
        _keep(store, target)
        (target / "told.json").write_text(json.dumps(sender.entries, indent=1) + "\n")


if __name__ == "__main__":
    make("light", LIGHT_PROPERTIES, ("logs-a", "logs-b"), fill_light)
    make("batch", BATCH_PROPERTIES, ("commitlog",), fill_batch)
