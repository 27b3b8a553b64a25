"""Long polling of pops and of notifications: who waits, until when, and what ends it.

A message that arrives wakes one of each group that waits for any queue of its topic, and one that waits for its queue, if they
want it; one in a retry topic wakes those of its group who wait for the topic that it came from.  So does a queue that is no
longer blocked, and what a pop has left behind.  What is woken is executed once more, and waits again until its time is over when
it finds nothing: one too many costs time, one too few a message's delay.  Arrivals are gathered by queue, looked at in slices.

Java: `PopLongPollingService`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Any, Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.call import PendingAnswer
from broker_impl.engine.engine import Engine
from broker_impl.filtering import Wanted, low_half
from broker_impl.state.pop_waits import ANY_QUEUE, Choice, Place, PopWait, PopWaits
from broker_impl.wakes import Wakes
from rmq_store.errors import Cold
from rmq_store.results import Arrived, GetStatus
from rmq_store.store import Store

EARLY_MS: Final = 50
"""So much before the end of its time a request is answered, for the way back (`PopRequest.isTimeout`)."""
HOLD_MS_MAX: Final = 300_000
"""Nobody makes us remember a request for longer than 5 minutes; stock clients wait 15 to 20 s."""
REST_MS: Final = 50
"""One that waits though something is left, which it could not have at that moment, tries again after this time."""
ROWS_PER_SLICE: Final = 256
"""Places looked at between two yields, 2 µs each; a read for a selector counts as `READ_ROWS`."""
READ_ROWS: Final = 64
_BYTES_MAX: Final = 1 << 27
_NOTHING_YET: Final = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_OVERFLOW_ONE)


class Polling(Enum):
    """What became of a request that may wait (`PollingResult`)."""

    HELD = "it waits"
    FULL = "too many wait"
    TIMED_OUT = "its time is over"
    NOT_POLLING = "it does not want to"


class News:
    """What came to a queue and nobody looked at: from `first` up to `end`, with each tag hash so often; None: who knows."""

    __slots__ = ("codes", "end", "first")

    def __init__(self, first: int, end: int, codes: dict[int, int] | None) -> None:
        self.first = first
        self.end = end
        self.codes = codes


class PopPolling:
    """Of one kind of request.  `again` executes one once more, `give_up` answers it without that; `what` is its name in the log.
    `last`: whose time is over last is woken first.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        config: BrokerConfig,
        again: Callable[[PopWait], None],
        give_up: Callable[[PopWait], None],
        what: str,
        *,
        last: bool = False,
    ) -> None:
        self._engine = engine
        self._store = store
        self._config = config
        self._again = again
        self._give_up = give_up
        self._last = last
        self._number = 0
        self.arrivals = 0
        """How often something came, whatever it was: who reads in several turns asks whether something did meanwhile."""
        self.waits = PopWaits()
        self._wakes = Wakes(engine, self.waits, self._wake, what)
        self._what = what
        self._news: dict[tuple[str, int], News] = {}
        self._looking = False
        self._retrying: set[Place] = set()
        engine.on_arrival(self._arrived)

    def hold(
        self, pending: PendingAnswer, asked: Any, wanted: Wanted, until_ms: int | None = None, *, since: int | None = None
    ) -> Polling:
        """Let it wait, if it may.  `until_ms`: it waited before, and so long at the most.  `since`: `arrivals` when it looked."""
        config, env = self._config, self._engine.env
        if asked.poll_time <= 0 or pending.oneway:
            return Polling.NOT_POLLING
        if until_ms is None:
            left_ms = (asked.born_time or env.wall_ms) + asked.poll_time - EARLY_MS - env.wall_ms
            until_ms = env.mono_ms + min(left_ms, asked.poll_time, HOLD_MS_MAX)
        self._number += 1
        place = Place(asked.topic, asked.consumer_group, max(asked.queue_id, ANY_QUEUE))
        one = PopWait(pending, asked, place, wanted, until_ms, self._number)
        taken, most = len(self._wakes), config.max_pop_polling_size
        if not self.waits.make_room(one.peer, one.places, most, taken, self._give_up):
            return Polling.FULL
        if until_ms <= env.mono_ms:
            return Polling.TIMED_OUT
        if self.waits.count_at(place) > config.pop_polling_size:
            return Polling.FULL
        self._wakes.hold(one)
        if since is not None and since != self.arrivals:
            self.notify_soon(*place)
        return Polling.HELD

    def count(self, topic: str, group: str, queue_id: int) -> int:
        """How many wait there (200055)."""
        return self.waits.count_at(Place(topic, group, queue_id))

    def notify(self, topic: str, group: str, queue_id: int) -> bool:
        """Something may be had: wake one of those who wait for exactly this.  False when nobody does."""
        place = Place(topic, group, max(queue_id, ANY_QUEUE))
        for choice in self.waits.choices(place)[:1]:
            self._wakes.add(*self.waits.take(place, choice, 1, last=self._last))
            return True
        return False

    def notify_soon(self, topic: str, group: str, queue_id: int) -> None:
        """Something is there that could not be had just now: have one of them try again a little later."""
        place = Place(topic, group, max(queue_id, ANY_QUEUE))
        if place in self._retrying:
            return

        def retry() -> None:
            self._retrying.discard(place)
            self.notify(*place)

        self._retrying.add(place)
        self._engine.at(self._engine.env.mono_ms + REST_MS, retry)

    def _wake(self, one: PopWait) -> None:
        peer = one.pending.peer
        if peer.unsent_bytes > peer.output_bytes_max:
            self._give_up(one)
        else:
            self._again(one)

    # Arrivals

    def _arrived(self, arrived: Sequence[Arrived]) -> None:
        waits = self.waits
        self.arrivals += 1
        if not waits:
            return
        for topic, queue_id, end, tags_codes, _ in arrived:
            if not waits.concerns(topic):
                continue
            codes: dict[int, int] | None = None
            if waits.choosy:
                codes = {}
                for code in map(low_half, tags_codes):
                    codes[code] = codes.get(code, 0) + 1
            news = self._news.get((topic, queue_id))
            if news is None:
                self._news[topic, queue_id] = News(end - len(tags_codes), end, codes)
                continue
            news.end = end
            if news.codes is not None and codes is not None:
                for code, count in codes.items():
                    news.codes[code] = news.codes.get(code, 0) + count
            else:
                news.codes = None
        if self._news and not self._looking:
            self._look()

    def _look(self) -> None:
        self._looking = True
        self._engine.in_background(self._look_in_slices(), self._looked)

    def _looked(self, _: object, error: BaseException | None) -> None:
        self._looking = False
        if error is not None:
            self._engine.env.log.error("looking for a waiting %s failed: %s", self._what, error, error=error)
        if self._news:
            self._look()

    def _look_in_slices(self) -> Generator[None, None, None]:
        waits, rows = self.waits, 0
        while self._news:
            topic, queue_id = key = next(iter(self._news))
            news = self._news.pop(key)
            concerned = [(topic, group, False) for group in waits.groups_of(topic)]
            concerned += [(*found, True) for found in waits.retried(topic)]
            for real_topic, group, is_retry in concerned:
                for place in (Place(real_topic, group, ANY_QUEUE), Place(real_topic, group, queue_id)):
                    for choice in waits.choices(place):
                        rows += 1 if choice[1] is None or is_retry else READ_ROWS
                        count = news.end - news.first if is_retry else self._wanted(place, choice, key, news)
                        self._wakes.add(*waits.take(place, choice, count, last=self._last))
                        if rows >= ROWS_PER_SLICE:
                            rows = 0
                            yield
                    rows += 1

    def _wanted(self, place: Place, choice: Choice, key: tuple[str, int], news: News) -> int:
        """How many of them there are that who wants this has to look at."""
        codes, selector = choice
        if selector is not None:
            count = self._selected(place, choice, key, news)
        elif codes is None:
            return news.end - news.first
        elif news.codes is None:
            count = 1
        else:
            count = sum(news.codes[code] for code in news.codes.keys() & codes)
        interval = self._config.pop_long_polling_force_notify_interval
        if not count and interval > 0 and -(-news.first // interval) * interval < news.end:
            return 1
        return count

    def _selected(self, place: Place, choice: Choice, key: tuple[str, int], news: News) -> int:
        """Of those that a selector wants, what one read finds; where it did not come to the end, somebody has to look."""
        one = self.waits.one_of(place, choice)
        if one is None:
            return 0
        try:
            read = self._store.read_queue(
                *key, news.first, self.waits.count_at(place), _BYTES_MAX, one.wanted.codes, one.wanted.matches
            )
        except Cold:
            return 1
        if read.message_count:
            return read.message_count
        return 0 if read.status in _NOTHING_YET and read.next_offset >= news.end else 1
