"""A broker's registration with the name server of its own process: no requests, no sockets, in slices."""

from __future__ import annotations

from collections.abc import Sequence

from broker_impl.engine.engine import Engine
from broker_impl.engine.slices import Slices
from broker_impl.namesrv.registrations import Registration
from broker_impl.namesrv.server import NameServer
from broker_impl.registration import Announcement
from rmq_wire.bodies.topics import TopicConfig


class EmbeddedRegistration:
    """Does nothing without such a name server."""

    def __init__(self, announcement: Announcement, engine: Engine) -> None:
        self._announcement = announcement
        self._engine = engine
        self._name_server: NameServer | None = None
        self._keeps_address = False
        self._offered: dict[str, TopicConfig] = {}
        """What the name server is being given."""
        self._anew = False
        """It passes over what comes under a version that it knows, and everything is to be entered."""

    def begin(self, name_server: NameServer, *, keeps_address: bool, period_ms: int) -> Slices[None]:
        """Enter everything; again and again, as over the wire, so that a route that was deleted there comes back."""
        self._name_server = name_server
        self._keeps_address = keeps_address
        self._engine.every(period_ms, self._again)
        return self._entering()

    def everything_changed(self) -> None:
        """Enter all topics again, though they are what they were."""
        self._anew = True
        self._again()

    def topics_changed(self, changed: Sequence[TopicConfig]) -> None:
        """Enter these at once, and put them into what is still to be entered."""
        if self._name_server is not None:
            self._offered.update(offered := self._announcement.offered(changed))
            self._name_server.embed(self._registration(offered))

    def end(self) -> None:
        """Take the broker out again."""
        if self._name_server is not None:
            self._name_server.withdraw(self._announcement.unregistration())
        self._name_server = None
        self._offered = {}

    def _again(self) -> None:
        self._engine.in_background(self._entering())

    def _entering(self) -> Slices[None]:
        """A later one takes the place of one that is under way, and does what that was to do."""
        if self._name_server is None:
            return
        offered = self._offered = {}
        for _ in self._announcement.offering(offered):
            yield None
            if self._offered is not offered:
                return
        if self._anew:  # now, for what changed meanwhile was entered under the newest version
            self._announcement.topics.version_told(again=True)
        for _ in self._name_server.embedding(self._registration(offered)):
            yield None
            if self._offered is not offered:
                return
        self._anew = False

    def _registration(self, offered: dict[str, TopicConfig]) -> Registration:
        return self._announcement.registration(offered)._replace(embedded=True, keeps_address=self._keeps_address)
