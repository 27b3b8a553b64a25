"""Reading a queue (11, 361): what is there now, or, when the asker agreed to wait, as soon as it is there.

A pull is admitted check by check in the reference's order, read from the store and answered from a template with the units passed
through as they lie in the log.  An empty pull that may wait is held; an arrival that it wants, the end of its time or the sweep
every 5 s (for arrivals that its tags do not match, so that it moves on past them) executes it once more, and then it is answered
whatever comes out: it neither waits nor commits a second time.  When many are woken at once, each turn answers some of them.  A
peer that does not take its answers gets none of the messages that it was waiting for, only the word to ask again.

Java: `PullMessageProcessor`, `DefaultPullMessageResultHandler`, `PullRequestHoldService`.  Left out: static topics, being
read as a slave, cold data flow control.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from broker_impl.capabilities.pull_rules import Forbidden, PullRules
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Later, Refusal, Reply, Settled
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Capability, answers
from broker_impl.filtering import PropertyFilter, Wanted
from broker_impl.held_filters import HeldFilters
from broker_impl.state.broadcast_offsets import COMMIT_MS, BroadcastOffsets, Member
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_filters import ConsumerFilters
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.holds import Held, Holds
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from broker_impl.state.waits import places
from broker_impl.wakes import Wakes
from rmq_net.log import plain_text
from rmq_store.errors import Cold
from rmq_store.results import Arrived, GetStatus, Read
from rmq_store.store import Store
from rmq_wire import names, sys_flag
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.command import AnswerTemplate
from rmq_wire.headers.pull import LitePullMessage, PullMessage, PullMessageResponse

SWEEP_MS: Final = 5_000
"""`PullRequestHoldService`: every held pull is looked at this often, whatever its tags."""
SWEEP_KEYS_PER_SLICE: Final = 100
"""Queues looked at between two yields: 2 µs each, and those who are woken."""
HOLD_MS_MAX: Final = 300_000
"""Stock clients wait 15 or 20 s; nobody makes us remember a pull for longer than 5 minutes."""
HOLDS_MAX: Final = 100_000
"""Pulls held at once: what Java's queue of pull requests takes (pullThreadPoolQueueCapacity), some 1.5 KiB each; an even share of
them for every peer that waits.  One with many tags counts as several."""
MESSAGES_MAX: Final = 32_767
"""The store's own limits (32 and 8 messages) are far below."""
BODY_BYTES_MAX: Final = 128 * 1024 * 1024
"""`DefaultMessageStore.MAX_PULL_MSG_SIZE`; the asker's maxMsgBytes is not looked at, as in 5.5.0."""
VIEWS_MAX: Final = 2
"""More pieces than this are joined: copying 32 KiB costs less than 32 entries for the kernel."""

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY_QUEUE: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
_FIELDS: Final = ("next_begin_offset", "min_offset", "max_offset", "topic_sys_flag", "group_sys_flag")
MASTER_ID: Final = 0
TEMPLATES_MAX: Final = 1_024
"""Operators may name any broker in a group's settings."""


class Pull(Capability):
    """Codes 11 and 361, and the pulls that wait."""

    def __init__(
        self,
        engine: Engine,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        offsets: ConsumerOffsets,
        stats: Stats,
        store: Store,
        reads: ColdReads,
        filters: ConsumerFilters,
    ) -> None:
        self._engine = engine
        self._env = engine.env
        self._config = config
        self._rules = PullRules(config, self._env, topics, groups, clients, filters)
        self._offsets = offsets
        self._stats = stats
        self._store = store
        self._reads = reads
        self._broadcasts = BroadcastOffsets(self._env, config, topics, groups, clients, offsets, store)
        self._templates: dict[tuple[GetStatus, int, int], AnswerTemplate] = {}
        self.holds = Holds()
        self._wakes = Wakes(engine, self.holds, lambda held: self._wake(held), "pull")
        self._held_filters = HeldFilters(engine, store, self.holds, self._wakes.add)
        engine.on_arrival(self._arrived)
        engine.every(SWEEP_MS, lambda: engine.in_background(self._sweep()) if self.holds else None)
        engine.every(COMMIT_MS, lambda: engine.in_background(self._broadcasts.committing()) if self._broadcasts else None)

    @answers(PullMessage, LitePullMessage, bulky=True)
    def pull(self, call: Call, asked: PullMessage) -> Answer:
        """Read up to `max_msg_nums` messages, or wait.  Refused: 1, 2, 16, 17, 23 to 29 with the reference's texts."""
        if (characters := self._rules.characters_to_read(asked)) != 0:
            self._engine.shares.one_selector(characters)
        return self._look(asked, call.detach(), first=True)

    def _look(self, asked: PullMessage, pending: PendingAnswer, *, first: bool) -> Settled | Later:
        """Execute a pull.  `first`: it may wait, and its commit counts."""
        try:
            group, topic, wanted = self._rules.admit(asked, pending.peer)
        except Forbidden as no:
            return no.reply
        member = self._broadcasts.member(asked, pending.peer)
        try:
            moved = self._moved(asked, member) if member is not None or self._offsets.has_resets else None
            read = self._read(asked, wanted) if moved is None else moved
        except Cold as cold:
            self._reads.after(cold, lambda error: self._look_again(asked, pending, error, first=first))
            return LATER
        self._engine.shares.afford(read.size)
        return self._found(asked, pending, group, topic, wanted, read, member, first=first)

    def _moved(self, asked: PullMessage, member: Member | None) -> Read | None:
        """Told to go on elsewhere: where an operator has set the group, or where a broadcasting member was.  Raises Cold."""
        reset = self._offsets.take_reset(asked.consumer_group, asked.topic, asked.queue_id)
        if reset is not None and self._config.use_server_side_reset_offset:
            return Read(GetStatus.OFFSET_RESET, reset, *self._store.queue_bounds(asked.topic, asked.queue_id), (), 0, 0, False)
        begin = None if member is None else self._broadcasts.begin(member, asked)
        return None if begin is None else Read(GetStatus.OFFSET_RESET, begin, 0, 0, (), 0, 0, False)

    def _read(self, asked: PullMessage, wanted: Wanted) -> Read:
        stored = asked.topic if not asked.lite_topic else f"{names.LMQ_PREFIX}${asked.topic}${asked.lite_topic}"
        most = min(max(asked.max_msg_nums, 1), MESSAGES_MAX)
        return self._store.read_queue(
            stored, asked.queue_id, asked.queue_offset, most, BODY_BYTES_MAX, wanted.codes, wanted.matches
        )

    def _look_again(self, asked: PullMessage, pending: PendingAnswer, error: BaseException | None = None, *, first: bool) -> None:
        """Execute a pull whose request is over; answer it unless it goes on waiting.  An error here is this pull's alone."""
        if not pending.alive:
            return
        try:
            if error is not None:
                raise error
            answer = self._look(asked, pending, first=first)
        except Exception as wrong:
            self._env.log.error("pull of group %s from %s failed", asked.consumer_group, asked.topic, error=wrong)
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"{type(wrong).__name__}: {plain_text(wrong)}"))
            return
        if answer is not LATER:
            pending.answer(answer)

    # Answers

    def _found(
        self,
        asked: PullMessage,
        pending: PendingAnswer,
        group: SubscriptionGroupConfig,
        topic: TopicConfig,
        wanted: Wanted,
        read: Read,
        member: Member | None,
        *,
        first: bool,
    ) -> Settled | Later:
        status = read.status
        code = _CODES[status]
        if status in _EMPTY_QUEUE and asked.queue_offset != 0:
            code = ResponseCode.PULL_OFFSET_MOVED
        if member is not None:
            is_moved = code == ResponseCode.PULL_OFFSET_MOVED
            self._broadcasts.note(member, asked, read.next_offset if is_moved else asked.queue_offset)
        self._commit(asked, pending.peer, read, first=first)
        if code == ResponseCode.SUCCESS:
            self._stats.add_get(asked.consumer_group, asked.topic, asked.queue_id, read.message_count, read.size)
        elif code == ResponseCode.PULL_NOT_FOUND:
            if first and asked.sys_flag & sys_flag.PULL_SUSPEND and not pending.oneway:
                return self._hold(asked, pending, wanted)
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._env.log.info(
                "group %s asked for offset %d of %s queue %d (%d..%d): %s, moved to %d",
                asked.consumer_group,
                asked.queue_offset,
                asked.topic,
                asked.queue_id,
                read.min_offset,
                read.max_offset,
                status.name,
                read.next_offset,
            )
        suggested = MASTER_ID if not self._config.slave_read_enable else self._suggested(group, read)
        template = self._templates.get((status, code, suggested)) or self._template(status, code, suggested)
        head = template.render(
            pending.form,
            pending.opaque,
            read.next_offset,
            read.min_offset,
            read.max_offset,
            topic.topic_sys_flag,
            group.group_sys_flag,
            body_size=read.size,
        )
        chunks = read.chunks
        if not chunks:
            return head
        return [head, *chunks] if len(chunks) <= VIEWS_MAX else b"".join((head, *chunks))

    @staticmethod
    def _suggested(group: SubscriptionGroupConfig, read: Read) -> int:
        """Whom to pull from next: a slave when what was read is old.  Clients come to the master when there is none."""
        return group.which_broker_when_consume_slowly if read.suggest_slave else group.broker_id

    def _template(self, status: GetStatus, code: int, suggested: int = MASTER_ID) -> AnswerTemplate:
        constants = {"suggestWhichBrokerId": str(suggested)}
        made = AnswerTemplate(PullMessageResponse, _FIELDS, constants=constants, code=code, remark=status.name)
        if len(self._templates) >= TEMPLATES_MAX:
            self._templates.clear()
        self._templates[status, code, suggested] = made
        return made

    def _commit(self, asked: PullMessage, peer: Peer, read: Read, *, first: bool) -> None:
        """What was handed out, and on the first pass what the asker says that it has consumed (`tryCommitOffset`).

        *Differs*: an offset below zero or beyond the queue is not stored, nor that of a pull that takes a reset.
        """
        self._offsets.commit_pull(asked.consumer_group, asked.topic, asked.queue_id, read.next_offset)
        if (
            first
            and asked.sys_flag & sys_flag.PULL_COMMIT_OFFSET
            and read.status is not GetStatus.OFFSET_RESET  # what it says was true before
            and 0 <= asked.commit_offset <= read.max_offset
        ):
            client = f"{peer.remote[0]}:{peer.remote[1]}"
            self._offsets.commit(asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset, client)

    # Waiting

    def _hold(self, asked: PullMessage, pending: PendingAnswer, wanted: Wanted) -> Settled | Later:
        config = self._config
        needed = places(asked.subscription, wanted.codes)
        if not self.holds.make_room(pending.peer, needed, HOLDS_MAX, len(self._wakes), self._give_up):
            return Reply(code=ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]system busy, start flow control for a while")
        asks_ms = asked.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        held = Held(
            pending,
            asked,
            peer=pending.peer,
            key=(asked.topic, asked.queue_id),
            offset=asked.queue_offset,
            codes=wanted.codes,
            deadline_ms=self._env.mono_ms + min(max(asks_ms, 0), HOLD_MS_MAX),
            places=needed,
            matches=wanted.matches,
        )
        self._wakes.hold(held)
        return LATER

    def _arrived(self, arrived: Sequence[Arrived]) -> None:
        holds = self.holds
        if not holds:
            return
        for topic, queue_id, next_offset, tags_codes, _ in arrived:
            key = (topic, queue_id)
            self._wakes.add(*holds.arrived(key, next_offset, tags_codes))
            if holds.has_filtered(key):
                self._held_filters.look(key)

    def _sweep(self) -> Generator[None, None, None]:
        for count, key in enumerate(self.holds.keys()):
            self._wakes.add(*self.holds.behind(key, self._store.queue_bounds(*key)[1]))
            if count % SWEEP_KEYS_PER_SLICE == SWEEP_KEYS_PER_SLICE - 1:
                yield

    def _wake(self, held: Held) -> None:
        pending: PendingAnswer = held.pending
        peer = pending.peer
        if peer.unsent_bytes > peer.output_bytes_max:
            self._give_up(held)
        else:
            if isinstance(held.matches, PropertyFilter):
                held.matches.keep()
            self._look_again(held.asked, pending, first=False)

    def _give_up(self, held: Held) -> None:
        held.pending.answer(self._ask_again(held.asked, held.pending))

    def _ask_again(self, asked: PullMessage, pending: PendingAnswer) -> Settled:
        """The peer does not take what it has: it is asked to pull the same offset once more, when it has read so far."""
        lowest, highest = self._store.queue_bounds(asked.topic, asked.queue_id)
        status, code = GetStatus.NO_MATCHED_MESSAGE, ResponseCode.PULL_RETRY_IMMEDIATELY
        template = self._templates.get((status, code, MASTER_ID)) or self._template(status, code)
        return template.render(pending.form, pending.opaque, asked.queue_offset, lowest, highest, 0, 0)
