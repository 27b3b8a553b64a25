"""Long polling on the engine of a whole broker, without pops: a test says who waits, and sees who is woken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_impl.engine.call import PendingAnswer
from broker_impl.filtering import EVERYTHING, Wanted
from broker_impl.pop_polling import Polling, PopPolling
from broker_impl.state.pop_waits import ANY_QUEUE, PopWait
from rmq_wire.command import Form
from rmq_wire.headers.pop import PopMessage
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import pairs, send


def asked(topic: str = "T", group: str = "G", queue: int = ANY_QUEUE, **more: Any) -> PopMessage:
    said = {"poll_time": 10_000, "born_time": 0, "init_mode": 0, "max_msg_nums": 32, "invisible_time": 1_000, **more}
    return PopMessage(topic=topic, consumer_group=group, queue_id=queue, **said)


class Pollers:
    """Long polling on the engine of a broker; whoever is woken is written down, and waits again if `again` says so."""

    def __init__(self, root: Path, *, last: bool = False, **settings: Any) -> None:
        self.harness = Harness(root, **settings)
        self.harness.topic("T")
        self.harness.topic("%RETRY%G_T", 1)
        node = self.harness.node
        self.woken: list[PopWait] = []
        self.given_up: list[PopWait] = []
        self.again: Any = lambda one: None
        self.polling = PopPolling(node.engine, node.store, node.config, self._again, self.given_up.append, "test", last=last)
        self.client = self.harness.connect()

    def _again(self, one: PopWait) -> None:
        self.woken.append(one)
        self.again(one)

    def hold(self, wanted: Wanted = EVERYTHING, client: Client | None = None, **more: Any) -> Polling:
        pending = PendingAnswer(lambda *_: None, (client or self.client).peer, 1, Form.JSON, False)
        return self.polling.hold(pending, asked(**{"born_time": self.harness.env.wall_ms, **more}), wanted)

    def send(self, topic: str = "T", queue: int = 0, **properties: str) -> None:
        assert self.client.ask(send(topic, queue, pairs(**properties)), b"x").code == 0

    def places(self) -> list[tuple[str, str, int]]:
        found = [tuple(one.place) for one in self.woken]
        self.woken.clear()
        return found  # type: ignore[return-value]
