"""The check of half messages that have no end: every `transactionCheckInterval` their producers are asked.

A check goes over the queue of half messages in its order, from where the last one stopped to the first that is too young, or to
where the queue ended when it began, a slice at a time.  What it asks about it puts back first, at the end of the queue with one
check more counted, and asks (39, one-way) when that copy is written; the answer is an ordinary end of the copy.  What was asked
about too often is given up.  What was half at the start may have a copy or a commit that progress does not know after a crash:
the index is asked for these before a producer is.

Java: `TransactionalMessageCheckService`, `TransactionalMessageServiceImpl.check`, `AbstractTransactionalMessageCheckListener`.
*Differs*: a copy that is not written is tried again instead of passed over; to be put back unasked
(CHECK_IMMUNITY_TIME_IN_SECONDS) counts as no check; a half message whose copy or commit is there already is passed over; one that
can never be put back is given up.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Final

from broker_impl.capabilities.schedule import NEVER
from broker_impl.engine.answers import Pause, Refusal
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.router import Capability
from broker_impl.engine.slices import BYTES_PER_SLICE
from broker_impl.half_copies import Half
from broker_impl.half_messages import HalfMessages
from broker_impl.intake import NotTaken, copy_of
from broker_impl.state.clients import Clients
from broker_impl.state.ended_halves import HalfState
from broker_impl.state.topics import TopicTable
from rmq_store.errors import Cold, StoreError
from rmq_store.log.draft import Placed
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.headers.transactions import CheckTransactionState
from rmq_wire.implied import transactions as rule
from rmq_wire.implied.real_place import real_place_of
from rmq_wire.message import StoredMessage, pack_unit
from rmq_wire.message_id import offset_message_id
from rmq_wire.sys_flag import PERM_READ, PERM_WRITE

UNITS_PER_SLICE: Final = 8
"""Half messages that are looked at in one go, up to 60 µs each; of ended ones there is only a bit to look at."""
BITS_PER_SLICE: Final = 512
QUEUE_MS_MAX: Final = 60_000
"""Of one queue (MAX_PROCESS_TIME_LIMIT); the rest waits for the next check."""
CHANNEL_TRIES: Final = 3
"""Connections of a group that are looked at for one that takes questions (`ProducerManager.getAvailableChannel`)."""
HOUR_MS: Final = 3_600_000
GIVEN_UP_QUEUES: Final = 1


class CheckEnds(Exception):
    """Nothing more of this queue is looked at in this check."""


class TransactionCheck(Capability):
    """Checks; answers no code.  `start` after everything is loaded."""

    def __init__(self, halves: HalfMessages, topics: TopicTable, clients: Clients) -> None:
        self._halves = halves
        self._engine = halves.engine
        self._env = halves.env
        self._config = halves.config
        self._intake = halves.intake
        self._store = halves.store
        self._reads = halves.reads
        self._copies = halves.copies
        self._topics = topics
        self._clients = clients
        self._alarm: Deadline | None = None
        self._turn = 0
        self.unasked = 0
        """Half messages whose producer was to be asked and was not there."""

    def start(self) -> None:
        """The first check comes after one interval."""
        self._alarm = self._engine.at(self._env.mono_ms + self._config.transaction_check_interval, self._begin)

    def stop(self) -> None:
        """No further check."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _begin(self) -> None:
        self._halves.when_loaded(lambda: self._engine.in_background(self._check(), self._ended))

    def _ended(self, _result: object, error: BaseException | None) -> None:
        self.start()
        if error is not None:
            raise error

    def _check(self) -> Generator[Pause | None]:
        topic = self._topics.get(names.TRANS_HALF_TOPIC)
        for queue_id in range(topic.read_queue_nums if topic is not None else 1):
            try:
                yield from self._check_queue(queue_id)
            except CheckEnds:
                pass
            except (StoreError, OSError) as error:
                self._env.log.warning("check of transactions, queue %d: it goes on at the next one: %s", queue_id, error)
            yield None
            yield from self._finish(queue_id)

    def _check_queue(self, queue_id: int) -> Generator[Pause | None]:
        """Raises what a commit raises: then nothing of its slice is passed over.  What cannot be read waits for the next one."""
        ends_mono_ms = self._env.mono_ms + QUEUE_MS_MAX
        halves = self._halves
        lowest, highest = self._store.queue_bounds(names.TRANS_HALF_TOPIC, queue_id)
        if halves.first(queue_id) < lowest:
            halves.pass_to(queue_id, lowest)
        while self._env.mono_ms < ends_mono_ms:
            offset = first = halves.first(queue_id)
            cold, stop, units, size = None, False, 0, 0
            try:
                last = min(first + BITS_PER_SLICE, highest)
                while offset < last and units < UNITS_PER_SLICE and size < BYTES_PER_SLICE:
                    if halves.state(queue_id, offset) is not HalfState.ENDED:
                        size += self._look_at(queue_id, offset)
                        units += 1
                    offset += 1
                stop = offset >= highest
            except Cold as why:
                cold = why
            except CheckEnds:
                stop = True
            except (NotTaken, Refusal) as no:
                self._env.log.warning("check of transactions, queue %d: offset %d was not stored: %s", queue_id, offset, no)
                stop = True
            except (StoreError, OSError) as wrong:  # and what was staged before it counts
                self._env.log.error("check of transactions, queue %d: offset %d cannot be read: %s", queue_id, offset, wrong)
                stop = True
            if offset > first:
                self._engine.after_commit(partial(self._passed, queue_id, offset))
            yield None
            if cold is not None:
                yield from self._reads.loaded(cold)
            if stop:
                return

    def _passed(self, queue_id: int, offset: int, error: BaseException | None) -> None:
        if error is None:
            self._halves.pass_to(queue_id, offset)

    def _look_at(self, queue_id: int, offset: int) -> int:
        """Deal with one half message without end; its size.  Raises `CheckEnds`: it is to stay; `NotTaken`, `Refusal`, `Cold`."""
        half = self._read(queue_id, offset)
        if half is None:
            self._env.log.error("half message %d of queue %d cannot be read, and is passed over", offset, queue_id)
            return 0
        unit, values = half
        place = real_place_of(values)
        is_older = self._halves.is_older_than_start(queue_id, offset)
        if place is not None and not (is_older and self._copies.is_settled(half, place[0])):
            try:
                self._deal_with(half, place)
            except NotTaken as no:
                if no.status not in NEVER:
                    raise
                self._give_up_as_it_is(half, place[0], no)
        return unit.total_size

    def _deal_with(self, half: Half, place: tuple[str, int]) -> None:
        """As the rules are.  Raises `CheckEnds`, `NotTaken`, `Refusal`."""
        unit, values = half
        now_ms = self._env.wall_ms
        rules = rule.CheckRules(
            self._config.transaction_time_out,
            self._config.transaction_check_max,
            self._config.file_reserved_time * HOUR_MS,
        )
        match rule.verdict(values, unit.born_timestamp, now_ms, rules):
            case rule.Verdict.GIVE_UP:
                self._give_up(half, place[0], rule.given_up_values(values, self._config.transaction_check_max))
            case rule.Verdict.LATER:
                raise CheckEnds
            case rule.Verdict.PUT_BACK:
                self._halves.put_back(unit, rule.immune_values(values, unit.queue_offset))
            case rule.Verdict.ASK:
                asked = rule.asked_values(values)
                placed = self._halves.put_back(unit, asked)
                self._engine.after_commit(partial(self._ask, unit, asked, place, placed))

    def _read(self, queue_id: int, offset: int) -> Half | None:
        physical_offset, size, _ = self._store.queue_unit(names.TRANS_HALF_TOPIC, queue_id, offset)
        unit = self._store.stored(physical_offset, size)
        return None if unit is None else Half(unit, properties.decode(unit.properties.decode("utf-8", "replace")))

    def _ask(
        self, unit: StoredMessage, values: dict[str, str], place: tuple[str, int], placed: Placed, error: BaseException | None
    ) -> None:
        """The copy is written: a producer of the group says how the transaction ended, by an end of that copy."""
        if error is not None:
            return
        topic, queue_id = place
        group = values.get(prop.PGROUP, "")
        members = list(self._clients.producer_group(group) or ())
        if not members:
            self.unasked += 1
            self._env.log.warning("no producer of group %s is there to say how the transaction of a half message ended", group)
            return
        self._turn += 1
        peers = [members[(self._turn + at) % len(members)] for at in range(min(CHANNEL_TRIES, len(members)))]
        peer = next((one for one in peers if not one.congested), None)
        if peer is None:
            self.unasked += 1
            self._env.log.warning("no producer of group %s takes questions", group)
            return
        key = values.get(prop.UNIQ_KEY)
        question = CheckTransactionState(
            topic=names.TRANS_HALF_TOPIC,
            tran_state_table_offset=placed.queue_offset,
            commit_log_offset=placed.physical_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_message_id(unit.store_host, placed.physical_offset),
            bname=self._config.broker_name,
        )
        body = pack_unit(
            queue_id,
            unit.flag,
            placed.queue_offset,
            placed.physical_offset,
            unit.sys_flag,
            unit.born_timestamp,
            unit.born_host,
            unit.store_timestamp,
            unit.store_host,
            unit.reconsume_times,
            unit.prepared_transaction_offset,
            unit.body,
            topic.encode(),
            properties.encode_java({**values, prop.WAIT: "false"}),
        )
        self._engine.send_oneway(peer, question, body)

    def _give_up_as_it_is(self, half: Half, topic: str, why: NotTaken) -> None:
        """It cannot be put back, for what a check writes into it makes it too large: the others behind it must not wait for it.

        Raises `NotTaken`, `Refusal`.
        """
        log = self._env.log
        log.error("half message %d of queue %d can never be put back: %s", half.unit.queue_offset, half.unit.queue_id, why)
        try:
            self._give_up(half, topic, half.values)
        except NotTaken as no:
            if no.status not in NEVER:
                raise
            self._halves.forget(topic)
            log.error("half message %d of queue %d is passed over: %s", half.unit.queue_offset, half.unit.queue_id, no)

    def _give_up(self, half: Half, topic: str, values: dict[str, str]) -> None:
        """It is asked about no more (`resolveDiscardMsg`).  Raises `NotTaken`, `Refusal`."""
        unit = half.unit
        table = self._topics
        name = names.TRANS_CHECK_MAX_TIME_TOPIC
        if table.get(name) is None:
            made = TopicConfig(topic_name=name, read_queue_nums=GIVEN_UP_QUEUES, write_queue_nums=GIVEN_UP_QUEUES)
            made.perm = PERM_READ | PERM_WRITE
            table.create_if_absent(made)
        message = copy_of(unit, name, 0, values)
        self._intake.stage(message, self._env.wall_ms, store_host=unit.store_host)
        self._halves.forget(topic)
        self._env.log.warning("the transaction of message %s of %s is given up", values.get(prop.UNIQ_KEY), topic)

    def _finish(self, queue_id: int) -> Generator[Pause | None]:
        """Op messages that end nothing any more are passed, too; then both may be said (`calculateOpOffset`)."""
        first = self._halves.first(queue_id)
        op_first = self._halves.op_first(queue_id)
        for offsets in self._halves.ops(queue_id, op_first):
            if not isinstance(offsets, list):
                yield offsets
            elif any(offset >= first for offset in offsets):
                break
            else:
                op_first += 1
        self._halves.say(queue_id, op_first)
