"""A small server for engine tests: a few codes, each answered in one of the ways an answer can take."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from broker_impl.engine.answers import LATER, Answer, Durable, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.engine import Engine
from broker_impl.engine.limits import Limits
from broker_impl.engine.router import Capability, Router, answers
from broker_impl.env import Env
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form, encode_response
from rmq_wire.declare import Role
from rmq_wire.headers.clients import GetConsumerListByGroup, Heartbeat, HeartbeatResponse, UnregisterClient
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset, GetMaxOffsetResponse, GetMinOffset
from rmq_wire.headers.query import ViewMessage
from tests.support.driver import Client, Driver
from tests.support.fake_store import FakeStore

WALL_MS = 1_700_000_000_000


class Kit(Capability):
    """`store` may be None; what handlers see is recorded in `seen`."""

    def __init__(self, engine: Engine, store: FakeStore | None) -> None:
        self.engine = engine
        self.store = store
        self.seen: list[Any] = []
        self.pending: list[PendingAnswer] = []
        self.broken: Exception | None = None
        """Raised by `stage` after it staged."""
        self.staged_by_slices: list[str] = []
        self.slice_errors: list[BaseException] = []
        self.answer: Answer = Reply()
        """What GET_MAX_OFFSET is answered with."""

    @answers(QueryConsumerOffset)
    def echo(self, call: Call, asked: QueryConsumerOffset) -> QueryConsumerOffsetResponse:
        """Answers with the queue id that was asked for; -1 is refused, -2 is a bug."""
        self.seen.append((call.peer.id, asked.queue_id))
        if asked.queue_id == -1:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, "not found")
        if asked.queue_id == -2:
            raise ZeroDivisionError("a bug\nof ours")
        return QueryConsumerOffsetResponse(offset=asked.queue_id)

    @answers(Heartbeat)
    def body(self, call: Call, asked: Heartbeat) -> HeartbeatResponse:
        """Keeps the body as it came: a view when it was one."""
        self.seen.append(call.body)
        return HeartbeatResponse()

    @answers(UpdateConsumerOffset, stages=True)
    def stage(self, call: Call, asked: UpdateConsumerOffset) -> Answer:
        """Stages the topic; `commit_offset` says how to answer: 0 Durable, 1 not said to be durable, 2 WAIT=false."""
        assert self.store is not None
        end = self.store.stage(asked.topic)
        if self.broken is not None:
            raise self.broken
        reply = Reply(remark=asked.topic)
        if asked.commit_offset == 1:
            return reply
        return Durable(reply, end, waits=asked.commit_offset != 2)

    @answers(GetMinOffset)
    def park(self, call: Call, asked: GetMinOffset) -> Answer:
        self.pending.append(call.detach())
        return LATER

    @answers(GetMaxOffset)
    def given_answer(self, call: Call, asked: GetMaxOffset) -> Answer:
        return self.answer

    @answers(GetConsumerListByGroup)
    def long(self, call: Call, asked: GetConsumerListByGroup) -> Generator[None, None, Reply]:
        """Counts to the number that the group's name is, a slice each; stages a text per slice when there is a store."""
        for step in range(int(asked.consumer_group)):
            self.seen.append(step)
            if self.store is not None:
                self.store.stage(f"step {step}")
            try:
                yield
            except Exception as error:
                self.slice_errors.append(error)
        return Reply(remark="done")

    @answers(ViewMessage, bulky=True)
    def blob(self, call: Call, asked: ViewMessage) -> Reply:
        """A body of so many bytes as asked for, in two pieces."""
        self.engine.shares.afford(asked.offset)
        return Reply(body=[b"a", b"b" * (asked.offset - 1)])

    @answers(UnregisterClient)
    def relay(self, call: Call, asked: UnregisterClient) -> Answer:
        """Asks every other peer for its position and answers with how many answered, once all have or 3 s have passed."""
        pending = call.detach()
        others = [peer for peer in self.engine.peers.values() if peer is not call.peer]
        got: list[Any] = []

        def then(response: Any) -> None:
            got.append(None if response is None else response.ext_map().get("offset"))
            if len(got) == len(others):
                pending.answer(Reply(remark=",".join(map(str, got))))

        for peer in others:
            self.engine.ask(peer, question(), timeout_ms=3000, then=then)
        return LATER


def question() -> GetMaxOffset:
    return GetMaxOffset(topic="t", queue_id=0)


def answer_of(offset: int) -> GetMaxOffsetResponse:
    return GetMaxOffsetResponse(offset=offset)


def response(opaque: int) -> bytes:
    """An answer that a client might send: success, offset 666."""
    frame = encode_response(0, opaque, form=Form.JSON, header=answer_of(666))
    assert isinstance(frame, bytes)
    return frame


def where(queue_id: int) -> QueryConsumerOffset:
    """A request that is answered with its own number."""
    return QueryConsumerOffset(consumer_group="g", topic="t", queue_id=queue_id)


def put(text: str, mode: int = 0) -> UpdateConsumerOffset:
    """A request that stages `text`."""
    return UpdateConsumerOffset(consumer_group="g", topic=text, queue_id=0, commit_offset=mode)


class Server:
    """Engine, store, capability and driver in one place."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        store: FakeStore | None = None,
        engine_class: type[Engine] = Engine,
        hidden: dict[str, frozenset[int]] | None = None,
        env: Env | None = None,
    ) -> None:
        self.env = env or Env(wall_ms=WALL_MS, mono_ms=1_000)
        self.store = store
        sync_flush = store is not None and store.sync_flush
        sync = None if store is None else store.sync
        self.engine = engine_class(self.env, store, limits=limits, sync_flush=sync_flush, sync=sync)
        self.kit = Kit(self.engine, store)
        self.engine.install(Router(Role.BROKER, [self.kit], complete=False), hidden)
        self.driver = Driver(self.engine)

    def connect(self, *, listener: str = "main") -> Client:
        return self.driver.connect(listener=listener)


def server_with(*, sync_flush: bool = False, limits: Limits | None = None) -> tuple[Server, FakeStore]:
    """A server that has a store, and that store."""
    store = FakeStore(sync_flush=sync_flush)
    return Server(store=store, limits=limits), store
