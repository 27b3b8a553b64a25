"""The plan of one send: how often, where, with how much time, and when to give up.

All attempts share one time-out.  What failed on its way is tried once more on another broker; what a broker refused only for one
of the codes that another broker may not have.  Pure: time is an argument, and what an attempt led to is told.
Source: `DefaultMQProducerImpl.sendDefaultImpl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmq_client.errors import AnswerLate, BrokerError, ClientError, NetworkError, NoBroker, Unreadable
from rmq_client.messages import SendResult, SendStatus
from rmq_client.producing.latency import LatencyFaults
from rmq_client.producing.queue_choice import QueueChooser
from rmq_client.settings import ProducerSettings
from rmq_wire.fastjson import MessageQueue


class Attempt(NamedTuple):
    """One of them: where to, with how much time, and when it began."""

    queue: MessageQueue
    timeout_ms: int
    began_ms: int


class SendAttempts:
    """`next` gives an attempt; tell `stored` or `failed` what became of it; None: it is over, and `outcome` says how."""

    def __init__(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        chooser: QueueChooser,
        faults: LatencyFaults | None,
        settings: ProducerSettings,
        *,
        began_ms: int,
        timeout_ms: int,
    ) -> None:
        self._topic = topic
        self._queues = queues
        self._chooser = chooser
        self._faults = faults
        self._settings = settings
        self._ends_ms = began_ms + timeout_ms
        self._timeout_ms = timeout_ms
        self._tries_left = 1 + settings.retry_times_when_send_failed
        self._last_broker: str | None = None
        self._result: SendResult | None = None
        self._error: ClientError | None = None
        self._said: list[str] = []
        self._maybe_stored = False

    def next(self, now_ms: int) -> Attempt | None:
        """The next attempt; None when one was good enough, none is left or the time is up."""
        left_ms = self._ends_ms - now_ms
        if self._tries_left <= 0 or left_ms <= 0:
            return None
        self._tries_left -= 1
        queue = self._chooser.choose(self._topic, self._queues, now_ms, last_broker=self._last_broker)
        self._last_broker = queue.broker_name
        most = self._settings.send_msg_max_timeout_per_request_ms
        if most is not None and self._tries_left:
            left_ms = min(left_ms, most)
        return Attempt(queue, left_ms, now_ms)

    def stored(self, attempt: Attempt, result: SendResult, now_ms: int) -> None:
        """The broker has it.  Another status than SEND_OK is tried again only where the settings say so."""
        self._heed(attempt, now_ms, failed=False, reachable=True)
        self._result = result
        if result.status is SendStatus.SEND_OK or not self._settings.retry_another_broker_when_not_store_ok:
            self._tries_left = 0
        else:
            self._said.append(f"{attempt.queue.broker_name}: {result.status.name}")

    def failed(self, attempt: Attempt, error: ClientError, now_ms: int) -> None:
        """It did not work; the last error is the one that counts."""
        self._error = error
        self._said.append(f"{attempt.queue.broker_name}: {error}")
        self._maybe_stored |= error.maybe_stored
        if isinstance(error, BrokerError):
            self._heed(attempt, now_ms, failed=True, reachable=False)
            stored = isinstance(error, Unreadable) and error.done  # by its code, whatever else of the answer is wrong
            if stored or error.code not in self._settings.retry_response_codes:
                self._tries_left = 0
        elif isinstance(error, NoBroker):
            self._heed(attempt, now_ms, failed=False, reachable=True)
        elif isinstance(error, NetworkError):
            self._heed(attempt, now_ms, failed=True, reachable=not self._settings.start_detector_enable)
        else:
            self._tries_left = 0

    def outcome(self) -> SendResult:
        """The best that came out.  Raises the last error, which then knows of all attempts."""
        if self._result is not None:
            return self._result
        error = self._error or AnswerLate(f"{self._timeout_ms} ms were over before {self._topic} could be sent to")
        error.attempts = tuple(self._said)
        error.maybe_stored = self._maybe_stored
        raise error

    def _heed(self, attempt: Attempt, now_ms: int, *, failed: bool, reachable: bool) -> None:
        if self._faults is not None:
            broker, latency_ms = attempt.queue.broker_name, now_ms - attempt.began_ms
            self._faults.update(broker, latency_ms, now_ms, failed=failed, reachable=reachable)
