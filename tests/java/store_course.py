"""One store directory on its way between the real broker and ours: started by each in turn, questioned, filled, stopped.

Both brokers have one port and one configuration, so that whatever is stored could be stored by either.  The judge is
`store_view`, which knows what the log implies; each broker's answers are compared with it, and with what the other had
answered.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.java.store_config import Configuration, check_checkpoint
from tests.support.java import REFERENCE
from tests.support.message_mix import Mix, first_configuration, now_ms
from tests.support.reference import ENDS_AT_ONCE, JavaBroker
from tests.support.store_differ import by_age, first_difference, read_files
from tests.support.store_questions import Answers, ask_everything
from tests.support.store_rewrite import store_settings
from tests.support.store_rig import open_store
from tests.support.store_view import Shape, View, rewritten
from tests.support.subject import OurBroker
from tests.support.talk import Talk

QUEUES_AND_INDEX = ("consumequeue", "index")
DELAYS_MS = (1000, 2000)
HEAP = "160m"
BEHAVIOUR = {
    "transactionTimeOut": "3600000",
    "commitLogRecoverMaxNum": "1000000",
    **ENDS_AT_ONCE,
}
"""No half message is checked, ends of transactions are written down at once; when Java makes queues anew it looks back to the
first file (it would look back ten files)."""


@dataclass(frozen=True)
class Plan:
    """What distinguishes one course from another."""

    name: str
    log_file_bytes: int
    body_bytes_max: int
    times: int
    """Each turn sends every kind of message so often."""
    host: str = "127.0.0.1"
    version: str = REFERENCE
    queue_file_bytes: int = 2_000
    index_num: int = 400

    @property
    def shape(self) -> Shape:
        return Shape(self.log_file_bytes, self.queue_file_bytes, 100, self.index_num, DELAYS_MS)

    @property
    def is_reference(self) -> bool:
        """Older versions have other index entries and other config files, and 4.x no version 2 units."""
        return self.version == REFERENCE


class Course:
    """The directory, its two brokers, and what is known of its content."""

    def __init__(self, plan: Plan, directory: Path, namesrv: str) -> None:
        self.plan = plan
        self.directory = directory
        self.namesrv = namesrv
        self.store = directory / "store"
        (self.store / "config").mkdir(parents=True)
        for name, text in first_configuration().items():
            (self.store / "config" / name).write_text(text)
        self.java = self._java("java", self.store)
        self.ours = OurBroker(directory / "ours", namesrv, name=self.java.broker_name, port=self.java.port, store=self.store)
        self.ours.properties = dict(self.java.properties)
        self.use_host(plan.host)
        self.mix = Mix(plan.log_file_bytes % 65_521, plan.body_bytes_max, now_ms(), long_names=not plan.version.startswith("4."))
        self.turns = 0
        self.answers: Answers | None = None
        self.configuration: Configuration | None = None

    def use_host(self, host: str) -> None:
        """Where both listen and what they advertise: the loopback address of either family."""
        self.host = host
        for broker in (self.java, self.ours):
            broker.properties |= {"brokerIP1": host, "brokerIP2": host, "bindAddress": host}

    def _java(self, name: str, store: Path) -> JavaBroker:
        plan = self.plan
        return JavaBroker(
            self.directory / name,
            self.namesrv,
            name=f"broker-{plan.name}",
            version=plan.version,
            store=store,
            properties={**plan.shape.properties(), **BEHAVIOUR},
            heap=HEAP,
        )

    def end(self) -> None:
        """Whatever still runs."""
        for broker in (self.java, self.ours):
            broker.kill()

    def files(self) -> dict[str, bytes]:
        """Log, queues and index as they are now."""
        return by_age(read_files(self.store))

    def view(self, files: dict[str, bytes]) -> View:
        return View(files, self.plan.shape, self.mix.deleted)

    def line(self, broker: JavaBroker | OurBroker) -> Talk:
        return Talk(f"{self.host}:{broker.port}")

    def question(self, line: Talk, view: View, *, with_keys: bool = True) -> Answers:
        return ask_everything(line, view, exactly_as_5_5=self.plan.is_reference, with_keys=with_keys)

    def round(self) -> None:
        """Java's turn, then ours."""
        self.turn(self.java)
        self.turn(self.ours)

    def turn(self, broker: JavaBroker | OurBroker) -> None:
        """Take over what the other left, agree on it, go on, and stop."""
        before = self.files()
        broker.start()
        with self.line(broker) as line:
            if self.answers is not None:
                self.load_changed_nothing(before)
                assert self.question(line, self.view(before)) == self.answers, "the two brokers answer differently"
            self.fill(line, with_transactions=broker is self.java)
            self.answers = self.question(line, self.view(self.files()))
        broker.stop()
        self.check_growth(before)
        self.check_state(by_java=broker is self.java)
        self.turns += 1

    def fill(self, line: Talk, *, with_transactions: bool) -> None:
        """Every kind of message, a topic made, one deleted, offsets committed; wait until nothing is on its way."""
        self.mix.topics(line, self.turns)
        self.mix.everything(line, self.plan.times)
        if with_transactions:
            self.mix.transactions(line)
            self.mix.timed(line)
        self.mix.commit_offsets(line, self.turns)
        self.mix.settle(line)

    def load_changed_nothing(self, before: dict[str, bytes]) -> None:
        """Log, queues and index byte for byte, no file more and none less."""
        difference = first_difference(before, self.files(), hash_slots=self.plan.shape.hash_slots)
        assert difference is None, f"loading changed {difference}"

    def check_growth(self, before: dict[str, bytes]) -> None:
        """What was written stays as it was; only queues of deleted topics go."""
        gone = {name for name, what in rewritten(before, self.files()).items() if what == "removed"}
        assert {name.split("/")[1] for name in gone} <= self.mix.deleted
        assert not set(rewritten(before, self.files())) - gone

    def check_state(self, *, by_java: bool, with_index: bool = True) -> None:
        """A clean stop: everything that was answered is in the log; queues and index are what it implies."""
        files = self.files()
        view = self.view(files)
        for sent in self.mix.acknowledged:
            stored = view.at[int(sent.message_id[-16:], 16)]
            assert (stored.topic, stored.unit.queue_id, stored.unit.queue_offset) == (
                sent.topic,
                sent.queue_id,
                sent.queue_offset,
            )
            assert bytes(stored.unit.body) == sent.body
        self.same_as(view.queue_files(), "consumequeue/")
        if self.plan.is_reference and with_index:
            self.same_as(view.index_files(), "index/")
        last_file = view.units[-1].unit.physical_offset // self.plan.log_file_bytes
        assert len([name for name in files if name.startswith("commitlog/")]) == last_file + 1, "a file without a message is left"
        assert not (self.store / "abort").exists()
        if self.plan.is_reference:
            check_checkpoint(self.store, view)
            configuration = Configuration(self.store, by_java=by_java)
            if self.configuration is not None:
                configuration.follows(self.configuration, deleted=view.deleted)
            self.configuration = configuration

    def same_as(self, expected: dict[str, bytes], part: str, store: Path | None = None, but_topics: Collection[str] = ()) -> None:
        """One part of the directory, file by file, but for the queues of these topics."""
        found = {name: data for name, data in by_age(read_files(store or self.store)).items() if name.startswith(part)}
        for name in [name for name in (*found, *expected) if name.split("/")[1] in but_topics]:
            found.pop(name, None)
            expected.pop(name, None)
        difference = first_difference(found, expected, hash_slots=self.plan.shape.hash_slots)
        assert difference is None, f"on disk and implied by the log: {difference}"

    # --- a kill instead of a stop

    def killed(self, broker: JavaBroker | OurBroker) -> None:
        """Filled without delays, which might come twice after a kill, and killed when everything is dispatched."""
        broker.start()
        with self.line(broker) as line:
            self.fill_at_once(line)
            self.answers = self.question(line, self.view(self.files()))
        broker.kill()
        assert (self.store / "abort").exists()

    def recovered(self, broker: JavaBroker | OurBroker, *, with_keys: bool) -> None:
        """The next start has every message where it was, goes on and stops cleanly.

        with_keys: the index is whole again, too. (Java removes index files that are newer than its checkpoint.)
        """
        before = self.files()
        broker.start()
        with self.line(broker) as line:
            answers = self.question(line, self.view(before), with_keys=with_keys)
            assert self.answers is not None
            assert answers.items() <= self.answers.items()
            assert answers == self.answers or not with_keys
            self.fill_at_once(line)
        broker.stop()
        self.check_growth(before)
        self.check_state(by_java=broker is self.java, with_index=with_keys)

    def fill_at_once(self, line: Talk) -> None:
        for turn in range(self.plan.times):
            self.mix.at_once(line, turn)
        self.mix.settle(line)

    # --- at the end of a course

    def load_only(self, broker: JavaBroker | OurBroker) -> None:
        """Start, ask nothing, stop."""
        before = self.files()
        broker.start()
        broker.stop()
        self.load_changed_nothing(before)

    def java_makes_it_anew(self) -> None:
        """The log alone, given to Java: its queues and index are ours.

        Queues of deleted topics come back. Of a topic that was made again Java has the first life and drops what came later;
        we have the last one.
        """
        copy = self._log_alone("anew-java")
        broker = self._java("java-anew", copy)
        broker.properties |= {name: self.java.properties[name] for name in ("brokerIP1", "brokerIP2", "bindAddress")}
        try:
            broker.start()
            view = self.view(self.files())
            with self.line(broker) as line:
                self.question(line, View(self.files(), self.plan.shape, view.deleted | view.made_again))
            broker.stop()
        finally:
            broker.kill()
        self._same_anew(view, copy, but_topics=view.made_again)
        check_checkpoint(copy, view)

    def we_make_it_anew(self) -> None:
        """The same by our store."""
        copy = self._log_alone("anew-ours")
        view = self.view(self.files())
        ours = open_store(store_settings(copy, self.plan.shape), now_ms())
        ours.dispatch(now_ms())
        assert ours.close(now_ms())
        self._same_anew(view, copy)
        check_checkpoint(copy, view)

    def _log_alone(self, name: str) -> Path:
        copy = self.directory / name
        shutil.copytree(self.store / "commitlog", copy / "commitlog")
        shutil.copytree(self.store / "config", copy / "config")
        return copy

    def _same_anew(self, view: View, copy: Path, but_topics: Collection[str] = ()) -> None:
        difference = first_difference(read_files(copy, ("commitlog",)), read_files(self.store, ("commitlog",)))
        assert difference is None, str(difference)
        self.same_as(view.queue_files(deleted_too=True), "consumequeue/", copy, but_topics)
        self.same_as(view.index_files(), "index/", copy)
