"""After a clean stop queues are opened when they are asked for: of a row, which says what the files would."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_store.disk.disk import Kind, RealDisk
from rmq_store.disk_space import RetentionRules
from rmq_store.errors import ForeignFile, Illegal
from rmq_store.queues.unopened import QUEUES_MAX, Unopened
from rmq_store.recovery import inventory
from rmq_store.retention import Retention
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small

TOPICS = 40
QUEUES = 3
QUEUE_FILE = 200
"""Bytes: ten entries."""
AT_ONCE = RetentionRules(file_reserved_time=0, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
LOOK_MS = 70_000
"""The first look comes a minute after the start."""
SEEDS = 40
STEPS = 60
RARE = (
    "a clean stop",
    "a kill",
    "a cut",
    "a topic deleted",
    "a topic made again",
    "log files went",
    "a row put back",
    "not opened",
)
State = dict[tuple[str, int], tuple[object, ...]]


def topic(number: int) -> str:
    return f"Topic{number:02d}"


def filled(topics: int = TOPICS, queues: int = QUEUES, messages: int = 14) -> tuple[MemoryDisk, Rig]:
    """Two files in each queue; the newest message is that of the last one."""
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(topics * queues * messages):
        rig.put(draft(number, topic(number // queues % topics), number % queues, body_bytes=8))
    return disk, rig


def opened(rig: Rig) -> list[str]:
    return sorted(rig.store._queues.by_topic)


def state(rig: Rig) -> State:
    """Of every queue, all of them opened."""
    return {
        (one.topic, one.queue_id): (
            one.segments.directory,
            tuple(one.segments.starts),
            one.min_offset,
            one.max_offset,
            one.next_offset,
            one.end_physical,
            one.topic_field,
        )
        for one in rig.store._queues
        if one.segments.starts
    }


def twin(rig: Rig, *, believed: bool) -> Rig:
    """Another start of what a clean stop left, which believes the rows or looks at every file."""
    assert isinstance(rig.disk, MemoryDisk)
    with pytest.MonkeyPatch.context() as patch:
        if not believed:
            patch.setattr(Unopened, "add", lambda self, topic, row: False)
        return Rig(rig.disk.crash("all"), rig.settings, rig.wall_ms, rig.mono_ms)


def test_a_start_after_a_clean_stop_opens_one_queue_and_a_question_its_topic() -> None:
    """The newest message's topic is looked at. Disk calls are counted: all other files are only looked up by name."""
    disk, rig = filled()
    before = rig.store.topics()
    assert rig.store.close(rig.wall_ms)
    calls: Counter[str] = Counter()

    def count(operation: str, path: str) -> None:
        if "/consumequeue/" in path:
            calls[operation] += 1

    disk.before = count
    rig.open()
    assert calls["stamp"] == TOPICS * (1 + 3 * QUEUES)
    assert 0 < calls["open"] <= 2 * QUEUES
    assert opened(rig) == [topic(TOPICS - 1)]
    assert rig.store.topics() == before, "nothing is opened for it"
    assert rig.store.queue_bounds(topic(3), 2) == (0, 14)
    assert rig.store.queue_bounds(topic(3), 7) == rig.store.queue_bounds("None", 0) == (0, 0)
    assert opened(rig) == [topic(TOPICS - 1)]
    calls.clear()
    assert rig.numbers(topic(3), 2) == [
        number for number in range(TOPICS * QUEUES * 14) if number // 3 % TOPICS == 3 and number % 3 == 2
    ]
    [placed] = rig.put(draft(0, topic(5), 1))
    assert placed.queue_offset == 14
    assert opened(rig) == [topic(3), topic(5), topic(TOPICS - 1)]
    calls.clear()
    assert rig.store.close(rig.wall_ms)
    assert calls["stamp"] == 1 + 3 * QUEUES, "the one topic that was written to"


def test_a_row_says_what_the_files_say() -> None:
    _, rig = filled(messages=23)
    rig.put(draft(0, "Late", 0))
    assert rig.store.close(rig.wall_ms)
    assert state(twin(rig, believed=True)) == state(twin(rig, believed=False))


def test_a_start_that_was_not_clean_opens_every_queue() -> None:
    disk, rig = filled(topics=4)
    rig.reopen()
    rig.put(draft(0, topic(1)))
    rig.disk = disk.crash("all")
    rig.open()
    assert opened(rig) == [topic(number) for number in range(4)]
    rig.reopen()
    assert len(opened(rig)) == 1


def test_what_the_log_has_behind_the_queues_opens_every_queue() -> None:
    """An older copy of one queue: the log is walked, and all of them are looked at."""
    disk, rig = filled(topics=4)
    assert rig.store.close(rig.wall_ms)
    disk.open(f"{ROOT}/consumequeue/{topic(3)}/2/{QUEUE_FILE:020d}").write_at(60, bytes(20))
    rig.open()
    assert len(opened(rig)) == 4
    assert rig.store.report.rebuilt
    assert rig.numbers(topic(3), 2)[-1] == 4 * QUEUES * 14 - 1


def touched(disk: MemoryDisk, directory: str) -> None:
    """The same bytes again."""
    file = disk.open(f"{directory}/{0:020d}")
    file.write_at(0, file.read_at(0, 20))


def shortened(disk: MemoryDisk, directory: str) -> None:
    disk.open(f"{directory}/{0:020d}").set_length(QUEUE_FILE - 20)


def with_a_link(disk: MemoryDisk, directory: str) -> None:
    disk.place(f"{directory}/{5 * QUEUE_FILE:020d}", Kind.LINK)


def with_a_stray(disk: MemoryDisk, directory: str) -> None:
    disk.create(f"{directory}/notes.txt", 3)


def with_a_queue_more(disk: MemoryDisk, directory: str) -> None:
    queue = f"{directory.rpartition('/')[0]}/9"
    disk.make_directories(queue)
    disk.create(f"{queue}/{0:020d}", QUEUE_FILE).write_at(0, disk.open(f"{directory}/{0:020d}").read_at(0, 20))


def as_a_link(disk: MemoryDisk, directory: str) -> None:
    for entry in disk.entries(directory):
        disk.unlink(f"{directory}/{entry.name}")
    disk.remove_directory(directory)
    disk.place(directory, Kind.LINK)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (touched, ""),
        (with_a_queue_more, ""),
        (shortened, "180 bytes"),
        (with_a_link, "link"),
        (with_a_stray, "notes"),
        (as_a_link, "link"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_topic_whose_files_are_not_as_they_were_is_looked_at(change: Callable[[MemoryDisk, str], None], refused: str) -> None:
    disk, rig = filled(topics=4)
    assert rig.store.close(rig.wall_ms)
    change(disk, f"{ROOT}/consumequeue/{topic(1)}/0")
    if refused:
        with pytest.raises(ForeignFile, match=refused):
            rig.open()
        return
    rig.open()
    assert opened(rig) == [topic(1), topic(3)]
    assert rig.store.report.sentences() == []


def test_a_byte_of_the_note_that_changed_is_not_believed() -> None:
    disk, rig = filled(topics=2, messages=3)
    assert rig.store.close(rig.wall_ms)
    path = f"{ROOT}/{inventory.NAME}"
    whole = disk.contents()[path]
    assert inventory.read(disk, ROOT) is not None
    for at in range(len(whole)):
        disk.open(path).write_at(at, bytes([whole[at] ^ 1]))
        assert inventory.read(disk, ROOT) is None, at
        disk.open(path).write_at(at, whole[at : at + 1])
    disk.open(path).set_length(len(whole) - 1)
    assert inventory.read(disk, ROOT) is None


def test_what_retention_has_not_removed_yet_is_found_again() -> None:
    """A stop between the decision and the deed: a file that no start knows would lie there until queues have a gap."""
    _, rig = filled(topics=2)
    queue = rig.store._queues.get(topic(0), 0)
    queue.segments.starts.remove(0)
    queue.min_offset = 10
    rig.reopen()
    assert rig.store._queues.get(topic(0), 0).segments.starts == [0, QUEUE_FILE]


def test_a_stop_before_the_queues_have_followed_the_log_leaves_no_rows_to_be_believed() -> None:
    """Their least offsets are older than the log."""
    rig = days_rig()
    for number in range(300):
        rig.put(draft(number, topic(number % 3), body_bytes=200))
    rig.sync_queues()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Retention, "_follow_log", lambda self, log_min: iter(()))
        rig.retain(LOOK_MS)
    assert rig.store.min_offset > 0
    assert rig.store.queue_bounds(topic(0), 0)[0] == 0
    rig.reopen()
    assert rig.store.queue_bounds(topic(0), 0)[0] > 0


def test_retention_puts_back_what_it_opened() -> None:
    rig = days_rig()
    for number in range(400):
        rig.put(draft(number, topic(number % 20), body_bytes=200))
    rig.reopen()
    rig.store.retain_by(AT_ONCE)
    rig.put(*[draft(number, topic(0), body_bytes=2000) for number in range(40)])
    rig.sync_queues()
    rig.retain(LOOK_MS)
    assert rig.store.min_offset > 0
    assert opened(rig) == [topic(0), topic(19)]
    assert rig.store.queue_bounds(topic(7), 0) == (20, 20), "all of its messages are gone"
    assert rig.store.close(rig.wall_ms)
    assert state(twin(rig, believed=True)) == state(twin(rig, believed=False))
    rig.open()
    assert len(opened(rig)) == 1, "files that went do not keep a topic from being believed"


def test_a_queue_with_a_message_on_its_way_is_not_put_back() -> None:
    """Staged, or committed and not seen yet."""
    _, rig = filled(topics=2, messages=1)
    rig.store.stage(draft(6, topic(0)), rig.wall_ms)
    rig.store._queues.put_back(topic(0))
    rig.store.commit()
    rig.store._queues.put_back(topic(0))
    rig.store.stage(draft(7, topic(0)), rig.wall_ms)
    rig.store.commit()
    rig.store.dispatch(rig.wall_ms)
    rig.store._queues.put_back(topic(0))
    assert opened(rig) == [topic(1)]
    assert rig.numbers(topic(0)) == [0, 6, 7]


def test_a_topic_of_many_queues_is_opened_at_the_start() -> None:
    """All of a topic is opened at once, which nobody should wait for."""
    rig = Rig(MemoryDisk())
    rig.put(*[draft(number, "Wide", number) for number in range(QUEUES_MAX + 1)])
    rig.put(*[draft(number, "Narrow", number) for number in range(QUEUES_MAX)], draft(0, "Last"))
    rig.reopen()
    assert opened(rig) == ["Last", "Wide"]


def test_light_queues_are_counted_opened_or_not() -> None:
    rig = Rig(MemoryDisk(), small(enable_lmq=True, enable_multi_dispatch=True, max_lmq_consume_queue_num=3))

    def named(name: str) -> object:
        one = draft(1)
        one.properties += f"INNER_MULTI_DISPATCH\x01%LMQ%{name}\x02".encode()
        return rig.put(one)

    for name in "abc":
        named(name)
    rig.put(draft(2, "Other"))
    rig.reopen()
    assert opened(rig) == ["Other"]
    with pytest.raises(Illegal, match="3 light queues"):
        named("d")
    named("a")
    assert rig.store.queue_bounds("%LMQ%a", 0) == (0, 2)


def test_deleted_and_expired_queues_that_were_never_opened() -> None:
    rig = days_rig()
    for number in range(400):
        rig.put(draft(number, topic(number % 20) if number < 100 else "New", body_bytes=200))
    rig.put(draft(1, "Kept"), draft(2, "Other"))
    rig.reopen()
    rig.store.retain_by(AT_ONCE)
    rig.sync_queues()
    rig.retain(LOOK_MS)
    assert opened(rig) == ["Other"]
    assert rig.store.delete_topics(["Kept", "None"]) == 1
    assert rig.store.clean_expired_queues() == 20
    assert sorted(rig.store.topics()) == ["New", "Other"]
    assert opened(rig) == ["Other"]
    assert isinstance(rig.disk, MemoryDisk)
    assert {name.split("/")[3] for name in rig.disk.contents() if "/consumequeue/" in name} == {"New", "Other"}
    [placed] = rig.put(draft(3, topic(4)))
    assert placed.queue_offset == 0
    assert rig.store.close(rig.wall_ms)
    assert state(twin(rig, believed=True)) == state(twin(rig, believed=False))


def test_on_a_real_disk(tmp_path: Path) -> None:
    rig = Rig(RealDisk(), small(store_path_root_dir=str(tmp_path)))
    for number in range(60):
        rig.put(draft(number, topic(number % 5), number % 2))
    rig.reopen()
    assert opened(rig) == [topic(4)]
    (tmp_path / "consumequeue" / topic(2) / "1" / "notes.txt").write_text("mine")
    rig.put(draft(60, topic(1), 1))
    assert rig.store.close(rig.wall_ms)
    with pytest.raises(ForeignFile, match="notes"):
        rig.open()
    (tmp_path / "consumequeue" / topic(2) / "1" / "notes.txt").unlink()
    rig.open()
    assert opened(rig) == [topic(1), topic(2)]
    assert rig.numbers(topic(1), 1) == [*range(1, 60, 10), 60]
    assert rig.store.close(rig.wall_ms)


# --- random days


def days_rig() -> Rig:
    rig = Rig(MemoryDisk(), small(hot_window_bytes=0))
    rig.store.retain_by(AT_ONCE)
    return rig


class Days:
    """Topics are written to, read, deleted; the broker stops, well or badly, and starts. After each clean stop two starts are

    compared: one that believes the rows, and one that looks at every file.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rare: Counter[str] = Counter()
        self.rig = days_rig()
        self.deleted: set[str] = set()
        self.number = 0

    def live(self) -> Counter[str]:
        steps = [self.put] * 8 + [self.read] * 3 + [self.delete, self.age] + [self.stop] * 3 + [self.kill, self.cut]
        for _ in range(STEPS):
            self.chance.choice(steps)()
        self.stop()
        return self.rare

    def put(self) -> None:
        name = topic(self.chance.randrange(8))
        if name in self.deleted:
            self.deleted.discard(name)
            self.rare["a topic made again"] += 1
        count = self.chance.choice([1, 3, 25])
        self.rig.put(*[draft(self.number + one, name, self.chance.randrange(3), body_bytes=150) for one in range(count)])
        self.number += count

    def read(self) -> None:
        self.rig.numbers(topic(self.chance.randrange(8)), self.chance.randrange(3))

    def delete(self) -> None:
        name = topic(self.chance.randrange(8))
        if self.rig.store.delete_topics([name]):
            self.deleted.add(name)
            self.rare["a topic deleted"] += 1

    def age(self) -> None:
        self.rig.sync_queues()
        began, unopened = self.rig.store.min_offset, len(self.rig.store._queues.unopened.topics())
        self.rig.retain(LOOK_MS)
        if self.rig.store.min_offset > began:
            self.rare["log files went"] += 1
            self.rare["a row put back"] += unopened > 0
        if self.chance.random() < 0.3:
            self.rig.store.clean_expired_queues()

    def stop(self) -> None:
        before = self.rig.store.topics()
        assert self.rig.store.close(self.rig.wall_ms)
        self.rare["a clean stop"] += 1
        with_rows, without = twin(self.rig, believed=True), twin(self.rig, believed=False)
        assert with_rows.store.topics() == without.store.topics() == before
        self.rare["not opened"] += len(with_rows.store._queues.unopened.topics())
        assert state(with_rows) == state(without)
        for name, queues in before.items():
            for queue_id in queues:
                assert with_rows.numbers(name, queue_id) == without.numbers(name, queue_id)
        if self.chance.random() < 0.3:
            self.crash("synced")
        self.start()

    def kill(self) -> None:
        before = self.rig.store.topics()
        self.rare["a kill"] += 1
        self.crash("all")
        self.start()
        after = self.rig.store.topics()
        for name, queues in before.items():
            for queue_id, (_, high) in queues.items():
                assert after[name][queue_id][1] == high

    def cut(self) -> None:
        self.rare["a cut"] += 1
        self.crash(self.chance)
        self.start()

    def crash(self, keep: str | random.Random) -> None:
        assert isinstance(self.rig.disk, MemoryDisk)
        self.rig.disk = self.rig.disk.crash(keep)

    def start(self) -> None:
        self.rig.open()
        self.rig.store.retain_by(AT_ONCE)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_days_of_queues_that_are_opened_when_asked_for(seed: int) -> None:
    Days(seed).live()


def test_days_have_seen_what_is_rare() -> None:
    seen = sum((Days(seed).live() for seed in range(SEEDS // 4)), Counter())
    assert all(seen[name] for name in RARE), seen
