"""A random day of POP on one broker, against a model of what each group may get and must get.

Two groups pop the topic T: one as it comes (`Loose`), one in order (`InOrder`).  They acknowledge one by one or in batches,
twice, late, with receipts that are none of theirs; they ask for more time or less, wait for messages, forget some.  Progress is
set back, another topic (U) is deleted and made again, disks are full, clocks are set, retry topics change their names,
the broker stops, is killed.

Without a kill no message is handed out before its time is over, none that was acknowledged in time comes again, and each comes
again soon after its time, counted as one attempt more.  A kill may hand out again what the progress on the disk does not have:
the model reads it there.  At the end of the day everybody acknowledges everything, and every message has come.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker_impl.state.order_info import KEPT_MS
from broker_impl.store_settings import timer_settings
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.offsets import ResetOffset
from rmq_wire.headers.pop import BatchAckMessage
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.topics import DeleteTopic
from tests.support.engine import Harness
from tests.support.memory_disk import MemoryDisk
from tests.support.pop_client import Got, Popped, ack, batch_ack, change, changed, pop, popped
from tests.support.pop_models import InOrder, Loose
from tests.support.requests import send
from tests.support.troubled_disk import TroubledDisk

STEPS = 60
QUEUES = 2
INVISIBLE_MS = (2_000, 5_000, 20_000, 60_000)
WAITS_MS = (100, 1_000, 3_000, 8_000, 30_000)
HOUR_MS = 3_600_000
ROUND_MS = 20_000
ROUNDS_MAX = 60
FULL_MS = (1, 12_000, 30_000)
FAR = 100_000
AGAIN_MS = 30_000
"""What was popped for a short time has come again by then."""
LOST_MS = 10_500
"""`flushCommitLogThoroughInterval`, and the look that finds that it is over."""
WHEEL_SLOTS = 60 * 64
SAVING_MS = 10_000
"""After a start progress is saved for the first time."""
TICK_MS = 100
"""Between two moments; what is changed comes just behind one."""


class PopDay:
    """Of one seed.  `calm`: no kills, no clocks, no full disks."""

    def __init__(self, seed: int, root: Path, *, calm: bool = False, steps: int = STEPS) -> None:
        self.rng = random.Random(seed)
        self.calm, self.steps = calm, steps
        self.disk = self.new_disk()
        settings = {
            "enablePopBufferMerge": "true" if self.rng.random() < 0.3 else "false",
            "enableRetryTopicV2": "false",
            "reviveQueueNum": str(self.rng.choice((1, 2, 8))),
            "serverChannelMaxIdleTimeSeconds": "100000",
            **self.more_settings(),
        }
        self.harness = Harness(root, disk=self.disk, **settings)
        self.harness.topic("T", QUEUES)
        for group in "GO":
            self.harness.node.groups.find(group)
        self.harness.driver.run()
        self.loose = Loose("T", "G", self.wall_ms, self.mono_ms)
        self.gone = Loose("U", "G", self.wall_ms, self.mono_ms)
        self.harness.topic("U", 1)
        self.ordered = InOrder("O", self.wall_ms, QUEUES)
        self.number = 0
        self.polls: set[int] = set()
        self.begin()

    def wall_ms(self) -> int:
        return self.harness.env.wall_ms

    def mono_ms(self) -> int:
        return self.harness.env.mono_ms

    def begin(self) -> None:
        """A client comes; the broker has started."""
        self.client = self.harness.connect()
        self.client.ask(GetMaxOffset(topic="T", queue_id=0))  # who never asks is not kept
        self.polls.clear()
        self.harness.driver.advance(1_000)

    def new_disk(self) -> TroubledDisk:
        return TroubledDisk()

    def more_settings(self) -> dict[str, str]:
        return {}

    def play(self) -> None:
        """The whole day.  Raises `AssertionError` for a promise that is broken."""
        doings = self.doings()
        for _ in range(self.steps):
            self.rng.choice(doings)()
            self.take_polls()
        self.disk.trouble = None
        self.end()

    def doings(self) -> list[Callable[[], None]]:
        """What happens, each as likely as another."""
        doings: list[Callable[[], None]] = [
            *[self.send] * 4,
            *[self.pop] * 4,
            *[self.pop_ordered] * 3,
            *[self.acknowledge] * 4,
            self.acknowledge_several,
            self.acknowledge_again,
            *[self.forge] * 2,
            *[self.change] * 2,
            *[self.order_ack] * 4,
            self.order_change,
            self.wait_for_some,
            *[self.wait] * 5,
            *[self.other] * 3,
            self.delete,
            self.reset,
            self.stop,
        ]
        if not self.calm:
            doings += [self.kill, self.kill, self.jump, self.fill, self.fill]
        return doings

    # Messages

    def send(self) -> None:
        for _ in range(self.rng.choice((1, 1, 3, 8))):
            queue = self.rng.randrange(QUEUES)
            number, self.number = self.number, self.number + 1
            answer = self.client.ask(send("T", queue), b"%d" % number)
            if answer.code == 0:
                offset = int(answer.ext_map()["queueOffset"])
                self.loose.sent(number, queue, offset)
                self.ordered.sent(number, queue, offset)

    def ask_pop(self, group: str, **more: Any) -> Popped:
        answer = self.client.ask(pop("T", group, born_ms=self.wall_ms(), **more))
        assert answer.code in (0, 210), answer.remark
        return popped(answer, "T", group)

    def pop(self) -> None:
        count = self.rng.choice((1, 2, 5, 32))
        queue = self.rng.choice((-1, -1, 0, 1))
        found = self.ask_pop("G", queue=queue, count=count, invisible_time=self.rng.choice(INVISIBLE_MS))
        self.loose.got(found)
        if queue == -1 and len(found.got) < count and self.disk.trouble is None:
            self.loose.nothing_left()

    def pop_ordered(self) -> None:
        attempt = self.rng.choice((None, "a", "b"))
        queue, count = self.rng.randrange(QUEUES), self.rng.choice((1, 2, 5))
        invisible_ms = self.rng.choice(INVISIBLE_MS)
        found = self.ask_pop("O", queue=queue, count=count, invisible_time=invisible_ms, order=True, attempt_id=attempt)
        self.ordered.got(queue, found, attempt, invisible_ms)

    def wait_for_some(self) -> None:
        """A pop that waits."""
        asked = pop("T", "G", born_ms=self.wall_ms(), poll_time=self.rng.choice((2_000, 15_000)), count=4)
        self.polls.add(self.client.send(asked))

    def take_polls(self) -> None:
        for opaque in sorted(self.polls & self.client.answers.keys()):
            self.polls.discard(opaque)
            answer = self.client.answers.pop(opaque)
            assert answer.code in (0, 210), answer.remark
            self.loose.got(popped(answer, "T", "G"))

    def other(self) -> None:
        """Some of a topic that is deleted now and then."""
        number, self.number = self.number, self.number + 1
        answer = self.client.ask(send("U", 0), b"%d" % number)
        if answer.code == 0:
            self.gone.sent(number, 0, int(answer.ext_map()["queueOffset"]))
        for one in self.pop_other(self.rng.choice(INVISIBLE_MS)):
            if self.rng.random() < 0.5:
                self.ack_one(one, self.gone)

    def pop_other(self, invisible_ms: int) -> list[Got]:
        answer = self.client.ask(pop("U", "G", born_ms=self.wall_ms(), invisible_time=invisible_ms, count=2))
        assert answer.code in (0, 210), answer.remark
        found = popped(answer, "U", "G")
        known = found._replace(got=[one for one in found.got if int(one.body) in self.gone.all])
        self.gone.got(known)
        return known.got

    def delete(self) -> None:
        """A topic goes, with what is in flight of it, and another one of its name is made."""
        if self.disk.trouble is None and self.rng.random() < 0.5:
            assert self.client.ask(DeleteTopic(topic="U")).code == 0
            self.gone.made_again()
            self.harness.topic("U", 1)
            self.harness.driver.advance(TICK_MS)  # the disk takes its time: no pop bears the name of one before

    # Giving them back

    def acknowledge(self) -> None:
        for one in self.loose.some(self.rng, self.rng.choice((1, 1, 4))):
            self.ack_one(one)

    def ack_one(self, one: Got, model: Loose | None = None) -> None:
        answer = self.client.ask(ack(one, "G"))
        assert answer.code == 0 or self.disk.trouble is not None, answer.remark
        (model or self.loose).acknowledged(one, said_yes=answer.code == 0)

    def acknowledge_several(self) -> None:
        ones = self.loose.some(self.rng, 8)
        if ones:
            answer = self.client.ask(BatchAckMessage(), batch_ack(ones, "G", "T"))
            for one in ones:
                self.loose.acknowledged(one, said_yes=answer.code == 0)

    def acknowledge_again(self) -> None:
        """Once more what was acknowledged, or what is somebody else's by now: it must not count, unless that has its name."""
        for one in self.loose.old(self.rng, 2):
            self.client.ask(ack(one, "G"))
            self.loose.named(one)

    def forge(self) -> None:
        """With a receipt of another pop, of another group: it must not count, whatever the answer."""
        for one in self.loose.some(self.rng, 2):
            word = self.rng.choice(("pop_time", "pop_time", "start_offset", "group"))
            if word == "group":
                self.client.ask(ack(one, "O"))
            elif word == "pop_time":  # no pop's
                forged = one._replace(receipt=one.receipt._replace(pop_time=one.receipt.pop_time - TICK_MS // 2))
                self.client.ask(ack(forged, "G"))
                self.loose.named(forged)
            else:  # beyond what there is: the next message may have a check point of its own
                self.client.ask(ack(one, "G", start_offset=one.receipt.start_offset + FAR))

    def change(self) -> None:
        for one in filter(self.changes, self.loose.some(self.rng, 1)):
            suspend = self.rng.random() < 0.3
            answer = self.client.ask(change(one, "G", self.rng.choice(INVISIBLE_MS), suspend=suspend))
            if answer.code == 0:
                assert not self.loose.is_taken(one), f"{one.topic} has {one.offset} no more, and it was given another time"
                self.loose.changed(one, changed(one, answer), self.wall_ms(), suspend=suspend)
            else:
                self.loose.unsure(one)

    def changes(self, one: Got) -> bool:
        """Whether it may be given another time."""
        return True

    def order_ack(self) -> None:
        for _ in range(self.rng.choice((1, 3))):
            self.order_ack_one()

    def order_ack_one(self, queue: int | None = None) -> bool:
        found = self.ordered.one(self.rng, queue)
        if found is None:
            return False
        answer = self.client.ask(ack(found[1], "O"))
        assert answer.code == 0, answer.remark
        self.ordered.acknowledged(*found)
        return True

    def order_change(self) -> None:
        found = self.ordered.one(self.rng)
        if found is not None:
            invisible_ms = self.rng.choice(INVISIBLE_MS)
            assert self.client.ask(change(found[1], "O", invisible_ms)).code == 0
            self.ordered.changed(*found, self.wall_ms() + invisible_ms)

    def reset(self) -> None:
        """Back to the beginning of a queue, or somewhere else in it."""
        if self.disk.trouble is not None:
            return
        queue, group = self.rng.randrange(QUEUES), self.rng.choice("GO")
        end = self.harness.node.store.queue_bounds("T", queue)[1]
        if end == 0:
            return
        offset = self.rng.randrange(end)
        asked = ResetOffset(group=group, topic="T", timestamp=-1, is_force=True, queue_id=queue, offset=offset)
        answer = self.client.ask(asked)
        assert answer.code == 0, answer.remark
        self.take_polls()
        (self.loose if group == "G" else self.ordered).reset(queue, offset)
        self.harness.driver.advance(TICK_MS)

    # The world

    def wait(self) -> None:
        self.harness.driver.advance(self.rng.choice(WAITS_MS))

    def jump(self) -> None:
        self.take_polls()
        by_ms = self.rng.choice((-HOUR_MS, -5_000, 5_000, HOUR_MS))
        for model in (self.loose, self.gone):
            model.clock_is_set(back=by_ms < 0)
        self.harness.env.wall_ms += by_ms

    def fill(self) -> None:
        """For a while nothing more can be written into the log."""
        until_ms = self.mono_ms() + self.rng.choice(FULL_MS)

        def trouble(operation: str, path: str, _size: int) -> OSError | int | None:
            if operation == "write" and "commitlog" in path and self.mono_ms() < until_ms:
                return OSError(errno.ENOSPC, "no room")
            return None

        self.disk.trouble = trouble
        self.loose.disturbed()

    def stop(self) -> None:
        self.restart(v2=self.rng.random() < 0.3)

    def restart(self, *, v2: bool) -> None:
        self.disk.trouble = None
        if v2:
            self.loose.strict_retries = False
        self.harness.settings["enableRetryTopicV2"] = "true" if v2 else "false"
        while self.harness.node.store.refusal is not None:  # a stop writes what is only in memory
            self.harness.driver.advance(1_000)
        self.take_polls()
        self.harness.restart()
        self.begin()

    def kill(self) -> None:
        self.disk.trouble = None
        self.take_polls()
        self.harness.restart(kill=True)
        offsets = self.harness.node.offsets
        for model in (self.loose, self.gone):
            model.killed(lambda topic, queue: offsets.query("G", topic, queue))
        self.ordered.killed()
        self.begin()
        self.loose.disturbed()

    def end(self) -> None:
        """Everything is acknowledged, until nothing comes any more."""
        self.restart(v2=True)  # one pop may look into either retry topic
        if not self.calm:
            self.loose.clock_is_set()
            self.gone.clock_is_set()
            self.harness.env.wall_ms += self.steps * HOUR_MS
            if self.steps * HOUR_MS > KEPT_MS:
                self.ordered.days_passed()
        quiet = 0
        for _ in range(ROUNDS_MAX):
            self.harness.driver.advance(ROUND_MS)
            self.take_polls()
            came = 0
            while True:
                found = self.ask_pop("G", invisible_time=ROUND_MS)
                self.loose.got(found)
                for one in found.got:
                    self.ack_one(one)
                if not found.got:
                    break
                came += len(found.got)
            while ones := self.pop_other(ROUND_MS):
                for one in ones:
                    self.ack_one(one, self.gone)
                came += len(ones)
            came += self.end_ordered()
            quiet = 0 if came else quiet + 1
            if quiet > 4 and not self.loose.waiting() and not self.gone.waiting():
                break
        self.loose.judge()
        self.gone.judge()
        self.ordered.judge()

    def end_ordered(self) -> int:
        came = 0
        for queue in range(QUEUES):
            while True:
                while self.order_ack_one(queue):
                    pass
                found = self.ask_pop("O", queue=queue, invisible_time=5_000, order=True)
                self.ordered.got(queue, found, None, 5_000)
                if not found.got:
                    break
                came += len(found.got)
        return came


class HardDay(PopDay):
    """A day on which troubles do not come alone."""

    def doings(self) -> list[Callable[[], None]]:
        return [*super().doings(), *[self.two_troubles] * 10]

    def two_troubles(self) -> None:
        """One close behind the other."""
        for _ in range(2):
            self.rng.choice((self.kill, self.kill, self.jump, self.fill, self.stop, self.delete, self.reset))()
            self.harness.driver.advance(self.rng.choice((0, 0, TICK_MS, 900, 2_500)))
            self.take_polls()


class PowerDay(PopDay):
    """A day on which the power goes: the disk has what was synced, and of the rest whatever chance leaves.

    SYNC_FLUSH: nothing that was answered is lost.  ASYNC_FLUSH: what was answered in the last `LOST_MS` may be.
    """

    def __init__(self, seed: int, *, sync_flush: bool, steps: int = 2 * STEPS) -> None:
        self.sync_flush = sync_flush
        super().__init__(seed, Path("/store"), calm=True, steps=steps)

    def new_disk(self) -> TroubledDisk:
        self.memory = MemoryDisk()
        return TroubledDisk(self.memory, syncs=True)

    def more_settings(self) -> dict[str, str]:
        mode = "SYNC_FLUSH" if self.sync_flush else "ASYNC_FLUSH"
        sizes = {"mappedFileSizeCommitLog": str(1 << 18), "mappedFileSizeTimerLog": str(1 << 16)}
        return {"flushDiskType": mode, "flushConsumerOffsetInterval": "500", "flushCommitLogLeastPages": "4", **sizes}

    def doings(self) -> list[Callable[[], None]]:
        deletes = (self.delete, self.other)
        return (
            [doing for doing in super().doings() if doing not in deletes]
            + [self.wait] * 4
            + [self.cut, self.cut_as_some_come_again] * 2
        )

    def cut(self) -> None:
        """Mostly when tables have been saved since somebody got something, and the log may not have been synced.

        Of what is on its way to the disk then nobody knows, unless it was answered.
        """
        self.harness.driver.advance(SAVING_MS)
        for _ in range(self.rng.choice((0, 1, 2))):
            self.pop()
        self.harness.driver.advance(self.rng.choice((0, 700, 700, 6_000, 6_000, 9_000)))
        self.power_goes()

    def cut_as_some_come_again(self) -> None:
        """When the progress of what came again may be on the disk, and the copies may not."""
        self.pop()
        before = self.copies()
        for _ in range(AGAIN_MS // TICK_MS):
            self.harness.driver.advance(TICK_MS)
            if self.copies() > before:
                break
        self.harness.driver.advance(self.rng.choice((0, 600, 2_000)))
        self.power_goes()

    def copies(self) -> int:
        """In the retry topics."""
        return sum(self.retry_end(f"%RETRY%G{sign}T") for sign in "_+")

    def retry_end(self, topic: str) -> int:
        return self.harness.node.store.queue_bounds(topic, 0)[1]

    def ack_one(self, one: Got, model: Loose | None = None) -> None:
        """Of what the power took the broker says that there is no such message, as Java does, until another has its place."""
        if not self.loose.is_taken(one) or one.offset <= (end := self.retry_end(one.topic)):
            super().ack_one(one, model)
            return
        answer = self.client.ask(ack(one, "G"))
        remark = f"offset is illegal, key:{one.topic}@0, commit:{one.offset}, store:0~{end}"
        assert (answer.code, answer.remark) == (ResponseCode.NO_MESSAGE, remark)
        self.loose.acknowledged(one, said_yes=False)

    def changes(self, one: Got) -> bool:
        """Not where another message has the place of one that the power took: this one would come once more."""
        return not self.loose.is_taken(one) or one.offset >= self.retry_end(one.topic)

    def power_goes(self) -> None:
        self.take_polls()
        self.harness.driver.held = True
        for one in self.loose.some(self.rng, 3):
            opaque = self.client.send(ack(one, "G"))
            if opaque in self.client.answers:
                self.loose.acknowledged(one, said_yes=self.client.answers.pop(opaque).code == 0)
            else:
                self.loose.unsure(one)
        self.memory = self.memory.crash(self.rng.choice(("synced", self.rng)))
        self.disk = self.harness.disk = TroubledDisk(self.memory, syncs=True)
        self.harness.open()
        node = self.harness.node
        ends = [node.store.queue_bounds("T", queue)[1] for queue in range(QUEUES)]
        lost_ms = 0 if self.sync_flush else LOST_MS
        self.loose.power_is_cut(ends, self.retry_end, lambda topic, queue: node.offsets.query("G", topic, queue), lost_ms)
        self.ordered.power_is_cut(ends)
        self.begin()
        self.loose.disturbed()


def power_day(seed: int, *, sync_flush: bool) -> None:
    """Play one on which the power goes, with a wheel of an hour: the disk in memory copies it again and again."""
    with pytest.MonkeyPatch.context() as patch:
        wheel_of_an_hour(patch)
        PowerDay(seed, sync_flush=sync_flush).play()


def wheel_of_an_hour(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("broker_impl.node.timer_settings", lambda config: replace(timer_settings(config), wheel_slots=WHEEL_SLOTS))


def day(seed: int, root: Path, *, calm: bool = False) -> None:
    """Play one."""
    PopDay(seed, root, calm=calm).play()


def hard_day(seed: int, root: Path) -> None:
    """Play one on which troubles come in twos."""
    HardDay(seed, root).play()
