"""All members get all messages, and each goes on where its own file says."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from rmq_client.client import connect
from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, Context
from rmq_client.consuming.local_offsets import LocalOffsets
from rmq_client.consuming.progress import LocalProgress
from rmq_client.errors import CallerError
from rmq_client.messages import Message, MessageQueue
from tests.client.consumers import FIRST, Heard, Messages, fill
from tests.support.subject import Subject

ALL = {f"{number}".encode() for number in range(12)}


async def test_each_gets_all_and_goes_on_where_its_file_says(ours: Subject, tmp_path: Path) -> None:
    async with connect(ours.namesrv, instance_name="one") as one, connect(ours.namesrv, instance_name="two") as two:
        await fill(one, "all", 12)
        first, second = Heard(), Heard()
        settings = {"message_model": "BROADCASTING", "local_offset_store_dir": tmp_path, **FIRST}
        async with (
            one.push_consumer("all-g", {"all": "*"}, first, **settings) as a,
            two.push_consumer("all-g", {"all": "*"}, second, **settings) as b,
        ):
            await first.until(12)
            await second.until(12)
            assert a.queues == b.queues
            assert len(a.queues) == 4
        assert set(first.bodies) == set(second.bodies) == ALL
        assert len(first.bodies) == len(second.bodies) == 12
        for client in (one, two):
            file = LocalOffsets(client.client_id, "all-g", tmp_path)
            assert sum(file.load().values()) == 12
        puller = one.puller("all-g")
        assert {await puller.committed_offset(queue) for queue in await puller.queues("all")} == {None}
        await one.producer("all-p2").send(Message("all", b"new"))
        again = Heard()
        async with one.push_consumer("all-g", {"all": "*"}, again, **settings):
            await again.until(1)
        assert again.bodies == [b"new"]


async def test_what_fails_does_not_come_again(ours: Subject, tmp_path: Path) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "all-f", 3, queues=1)
        heard = Heard()

        async def listen(messages: Messages, context: Context) -> ConsumeConcurrentlyStatus:
            heard.add(messages)
            return ConsumeConcurrentlyStatus.RECONSUME_LATER

        settings = {"message_model": "BROADCASTING", "local_offset_store_dir": tmp_path, **FIRST}
        async with client.push_consumer("all-fg", {"all-f": "*"}, listen, **settings):
            await heard.until(3)
        assert sorted(heard.bodies) == [b"0", b"1", b"2"]
        [offset] = LocalOffsets(f"{client.world.ip}@DEFAULT", "all-fg", tmp_path).load().values()
        assert offset == 3, "a client without an instance name has Java's file"


async def test_no_lock_is_asked_for(ours: Subject, tmp_path: Path) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as other:
        await fill(client, "all-o", 5, queues=1)
        first, second = Heard(), Heard()
        settings = {"message_model": "BROADCASTING", "orderly": True, "local_offset_store_dir": tmp_path, **FIRST}
        async with (
            client.push_consumer("all-og", {"all-o": "*"}, first, **settings),
            other.push_consumer("all-og", {"all-o": "*"}, second, **settings),
        ):
            await first.until(5)
            await second.until(5)
        assert first.bodies == second.bodies == [b"%d" % number for number in range(5)]


async def test_a_file_that_cannot_be_read_is_said(ours: Subject, tmp_path: Path) -> None:
    async with connect(ours.namesrv, instance_name="x") as client:
        await client.topics.create("all-b", queues=1)
        path = LocalOffsets(client.client_id, "all-bg", tmp_path).path
        path.parent.mkdir(parents=True)
        for name in (path, path.with_name("offsets.json.bak")):
            await trio.Path(name).write_bytes(b"[")
        settings = {"message_model": "BROADCASTING", "local_offset_store_dir": tmp_path}
        with pytest.raises(CallerError, match="mend or remove"):
            async with client.push_consumer("all-bg", {"all-b": "*"}, Heard(), **settings):
                pass
        with pytest.raises(CallerError, match="message_model"):
            client.push_consumer("all-bg", {"all-b": "*"}, Heard(), message_model="both")


@pytest.mark.parametrize("cancelled", [False, True])
async def test_one_save_after_the_other(tmp_path: Path, cancelled: bool) -> None:
    """The disk stalls while it saves, and it leaves: the last that is known is what the file says, whatever ends meanwhile."""
    queue, begun, goes_on = MessageQueue("T", "broker-a", 0), trio.Event(), threading.Event()
    saves: list[int] = []

    class Stalling(LocalOffsets):
        def save(self, offsets: Mapping[MessageQueue, int]) -> None:
            saves.append(offsets[queue])
            if len(saves) == 1:
                trio.from_thread.run_sync(begun.set)
                goes_on.wait()
            super().save(offsets)

    file = Stalling("10.0.0.1@me", "G", tmp_path)
    client: Any = SimpleNamespace()
    progress = LocalProgress(client, file)

    async def leave() -> None:
        with trio.move_on_after(0 if cancelled else math.inf):
            await progress.tell_all([queue], wait=True)

    async with trio.open_nursery() as nursery:
        progress.table.update(queue, 10, increase_only=True)
        nursery.start_soon(lambda: progress.tell_all([queue], wait=False))
        try:
            await begun.wait()
            progress.table.update(queue, 20, increase_only=True)
            nursery.start_soon(leave)
            await trio.testing.wait_all_tasks_blocked()
            assert saves == [10]
        finally:
            goes_on.set()
    assert saves == [10, 20]
    assert file.load() == {queue: 20}
