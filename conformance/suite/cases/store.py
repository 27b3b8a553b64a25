"""The files on disk: each message's unit, queue entries and index entries are what the wire promised."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from conformance.suite.kit import MUST, SHOULD, Code, Need, Trial
from conformance.suite.kit import case as declare
from rmq_inspect.decode.directory import StoreDirectory, StoreFile, list_store
from rmq_inspect.decode.index_file import IndexReader
from rmq_inspect.decode.log import Log
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.implied.index_keys import index_hash
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.checkpoint import FIELDS, FILE_SIZE
from rmq_wire.layout.consume_queue import UNIT
from rmq_wire.layout.flat import flat
from rmq_wire.message import StoredMessage
from rmq_wire.message_id import parse_offset_message_id

SEND = (Code.SEND_MESSAGE_V2,)
STORE = (Need.STORE,)
ENTRY = flat(UNIT).packed
CHECKPOINT = flat(FIELDS).packed


case = partial(declare, needs=STORE)


def listed(t: Trial) -> StoreDirectory:
    """The store's files now."""
    found = list_store(t.store)
    t.check("the log has files", bool(found.commit_log), seen=t.store)
    return found


def bytes_of(file: StoreFile) -> bytes:
    """The whole file."""
    return file.path.read_bytes()


async def queue_entries(t: Trial, topic: str, queue: int, count: int) -> list[tuple[int, int, int]]:
    """(place, size, tags code) of a consume queue's first entries, as soon as there are so many."""

    async def there() -> list[tuple[int, int, int]] | None:
        files = list_store(t.store).queues.get((topic, queue), [])
        if not files:
            return None
        data = bytes_of(files[0])[: count * ENTRY.size]
        entries: list[tuple[int, int, int]] = [(at, size, code) for at, size, code in ENTRY.iter_unpack(data)]
        return entries if len(entries) == count and all(size for _, size, _ in entries) else None

    return await t.until(f"{count} entries in the consume queue of {topic}, queue {queue}", there)


@case("store.unit", MUST, codes=SEND, rests_on="CommitLog, MappedFile")
async def unit(t: Trial) -> None:
    """At the place that a message id names stands the very unit that a pull brings."""
    topic = await t.topic()
    sent = await t.send(topic, b"on disk", tags="a", keys="k")
    place = parse_offset_message_id(sent.msg_id).physical_offset
    await t.pull_all(topic, 1)
    pulled = await t.pull(topic, 0)

    async def on_disk() -> bytes | None:
        with Log(list_store(t.store).commit_log) as log:
            raw = log.read(place, len(pulled.answer.body))
        return raw if raw == pulled.answer.body else None

    await t.until("the bytes in the log are the bytes on the wire", on_disk)


@case("store.queue-entries", MUST, codes=SEND, rests_on="ConsumeQueue.putMessagePositionInfo")
async def entries(t: Trial) -> None:
    """The consume queue holds place, size and tag hash of each message, in order."""
    topic = await t.topic(queues=2)
    tags = ("a", "b", "", "Aa")
    for queue in range(2):
        for tag in tags:
            await t.send(topic, b"x", tags=tag, queue=queue)
    for queue in range(2):
        stored = await t.pull_all(topic, 4, queue=queue)
        expected = [(one.physical_offset, one.total_size, tags_code(tag)) for one, tag in zip(stored, tags, strict=True)]
        t.equal(f"entries of queue {queue}", await queue_entries(t, topic, queue, 4), expected)


@case("store.index-entries", MUST, codes=SEND, rests_on="IndexFile.putKey, IndexService.buildIndex")
async def index(t: Trial) -> None:
    """The index leads from each key to the message."""
    topic, unique = await t.topic(), t.unique_key()
    sent = await t.send(topic, b"x", keys="k1 k2", unique_key=unique)
    place = parse_offset_message_id(sent.msg_id).physical_offset
    for key in ("k1", "k2", unique):

        async def there(key: str = key) -> bool:
            wanted = index_hash(topic, key)
            for file in reversed(list_store(t.store).index):
                with IndexReader(file) as reader:
                    if any(entry.key_hash == wanted and entry.physical_offset == place for entry in reader.entries()):
                        return True
            return False

        await t.until(f"an entry of {key}", there)


@case("store.file-names", MUST, codes=SEND, rests_on="MappedFileQueue, UtilAll.offset2FileName")
async def file_names(t: Trial) -> None:
    """Files have the names and sizes that every tool knows.

    Twenty digits of the first byte's offset; all log files of one size, all queue files of one size: those that were set.
    """
    topic = await t.topic()
    await t.send(topic, b"x", keys="k")
    await queue_entries(t, topic, 0, 1)
    found = listed(t)
    files = (*found.commit_log, *found.queues[topic, 0])
    for file in files:
        t.check(f"{file.name}", re.fullmatch(r"\d{20}", file.path.name) is not None)
    await one_size(t, "mappedFileSizeCommitLog", lambda store: store.commit_log)
    await one_size(t, "mappedFileSizeConsumeQueue", lambda store: [file for queue in store.queues.values() for file in queue])
    first = found.commit_log[0]
    t.check("names go by the size", all(int(file.path.name) % first.path.stat().st_size == 0 for file in found.commit_log))

    async def indexed() -> bool:
        return bool(list_store(t.store).index)

    await t.until("an index file", indexed)  # the first key of all makes it, some time after the queue has the message
    for directory, digits in (("commitlog", 20), ("index", 17)):
        names = [path.name for path in (t.store / directory).iterdir()]
        t.equal(f"{directory}: other names", [name for name in names if not re.fullmatch(rf"\d{{{digits}}}", name)], [])


async def one_size(t: Trial, setting: str, several: Callable[[StoreDirectory], list[StoreFile]]) -> None:
    """All of these files are as long as that was set.  One that is being made is empty for a moment."""

    async def sizes() -> set[int] | None:
        found = {file.size for file in several(listed(t))}
        return found if len(found) == 1 else None

    found = await t.until(f"files of one size, {setting}", sizes)
    t.equal(f"it is {setting}", found, {int(t.target.config[setting])} if setting in t.target.config else found)


@case("store.marks", MUST, rests_on="DefaultMessageStore: StorePathConfigHelper")
async def marks(t: Trial) -> None:
    """A running broker's marks: abort with its process id, lock, checkpoint of 4 KiB."""
    for name in ("abort", "lock", "checkpoint"):
        t.check(name, (t.store / name).is_file())
    t.equal("bytes of checkpoint", (t.store / "checkpoint").stat().st_size, FILE_SIZE)
    if t.version is None or t.version >= (5,):
        t.equal("abort", (t.store / "abort").read_text().strip(), re.compile(r"^\d+$"))


@case("store.batch", MUST, codes=Code.SEND_BATCH_MESSAGE, rests_on="CommitLog.asyncPutMessages")
async def batch(t: Trial) -> None:
    """The messages of a batch are units and entries of their own."""
    topic = await t.topic()
    body = pack_items([Item(0, b"%d" % number, b"TAGS\x01t%d\x02" % number) for number in range(3)])
    t.answer("send", await t.broker.ask(t.message(topic, batch=True), body))
    stored = await t.pull_all(topic, 3)
    expected = [(one.physical_offset, one.total_size, tags_code(f"t{number}")) for number, one in enumerate(stored)]
    t.equal("entries", await queue_entries(t, topic, 0, 3), expected)
    t.check("they stand together", _together(stored), seen=[(one.physical_offset, one.total_size) for one in stored])


def _together(stored: list[StoredMessage]) -> bool:
    return all(one.physical_offset + one.total_size == next_one.physical_offset for one, next_one in pairwise(stored))


@case("store.topics-file", MUST, codes=Code.UPDATE_AND_CREATE_TOPIC, rests_on="TopicConfigManager.persist")
async def topics_file(t: Trial) -> None:
    """A topic that was made stands in config/topics.json."""
    topic = await t.topic(queues=3)

    async def written() -> dict[str, Any] | None:
        table = _config(t, "topics.json").get("topicConfigTable", {})
        return table.get(topic)  # type: ignore[no-any-return]

    row = await t.until("its row", written)
    t.equal("queues, permission", (row["readQueueNums"], row["writeQueueNums"], row["perm"]), (3, 3, 6))


@case(
    "store.offsets-file",
    MUST,
    codes=Code.UPDATE_CONSUMER_OFFSET,
    needs=(Need.STORE, Need.OWN),
    rests_on="ConsumerOffsetManager.persist",
)
async def offsets_file(t: Trial) -> None:
    """A group's progress stands in config/consumerOffset.json soon.

    Under `topic@group`, by queue.
    """
    topic, group = await t.topic(), await t.group()
    for _ in range(3):
        await t.send(topic, b"x")
    await t.pull_all(topic, 3)
    t.answer("commit", await t.broker.ask(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=2)))

    async def written() -> bool:
        return bool(_config(t, "consumerOffset.json").get("offsetTable", {}).get(f"{topic}@{group}") == {"0": 2})

    await t.until("the progress", written)


def _config(t: Trial, name: str) -> dict[str, Any]:
    """A configuration file, with the bare integer keys of older writers in quotes; empty while it is being written."""
    try:
        text = (t.store / "config" / name).read_text()
        return json.loads(re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', text))  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return {}


@case("store.checkpoint-order", SHOULD, rests_on="StoreCheckpoint")
async def checkpoint(t: Trial) -> None:
    """The checkpoint's times are none of the future."""
    raw = (t.store / "checkpoint").read_bytes()
    fields = CHECKPOINT.unpack_from(raw)
    times = fields[:3]
    limit_ms = int(time.time() * 1e3) + 60_000
    t.check("log, queues, index", all(0 <= one <= limit_ms for one in times), seen=times)
