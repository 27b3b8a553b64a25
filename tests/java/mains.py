"""The mains of stock `rocketmq-example` as processes: started, watched by what they print, ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.subjects.jars import shared_classes
from tests.support import remoting
from tests.support.java import OPENED, REFERENCE, SMALL, classpath, java, rocketmq_home
from tests.support.process import ServerProcess, until
from tests.support.subject import Subject

PACKAGE = "org.apache.rocketmq.example"
UPDATE_AND_CREATE_TOPIC = 17
STARTS_MAX = 6
"""A stock client waits 3 s for its first answers and then gives up, which on a busy machine says nothing about the broker."""
TOO_LATE = (
    "RemotingTimeoutException",
    "RemotingTooMuchRequestException: sendDefaultImpl call timeout",
    "RemotingConnectException",
    "No route info of this topic",
    "Can not find Message Queue for this topic",
    "TIMEOUT_CLEAN_QUEUE",
    "wait reply message timeout",
)
"""What it says then: of an answer that was late, or of what it does not know for an earlier one was."""
QUEUES = 4
SECONDS = 240.0
"""Only a hang takes as long."""
SENT = re.compile(
    r"sendStatus=(\w+), msgId=(\w+), offsetMsgId=\w+, messageQueue=MessageQueue \[.*?queueId=(\d+)\], queueOffset=(\d+)"
)


class Sent(NamedTuple):
    status: str
    id: str
    queue: int
    offset: int


class Main(ServerProcess):
    """One of them, with its arguments; what it prints is its log."""

    def __init__(self, directory: Path, name: str, namesrv: str, *arguments: str) -> None:
        super().__init__(name.rpartition(".")[2], directory / name)
        self.main = name
        self._namesrv = namesrv
        self._arguments = arguments
        self.starts = 0

    def command(self) -> Sequence[str]:
        flags = [*SMALL, *OPENED, "-Xmx128m", f"-Drocketmq.namesrv.addr={self._namesrv}", f"-Duser.home={self.directory}"]
        return [
            java(),
            *shared_classes(REFERENCE, java()),
            *flags,
            "-cp",
            classpath(REFERENCE),
            f"{PACKAGE}.{self.main}",
            *self._arguments,
        ]

    def environment(self) -> Mapping[str, str]:
        return rocketmq_home(self.directory)

    def last_stop(self) -> None:
        self.kill()

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def begin(self, has_begun: Callable[[Main], bool]) -> Main:
        """Start it and wait until it has begun; once more when it had to wait too long for an answer, and for nothing else."""
        for self.starts in range(1, STARTS_MAX + 1):
            self.start(wait=False)
            until(lambda: has_begun(self) or self._gave_up(), f"start of {self.name}", seconds=SECONDS)
            if has_begun(self):
                return self
            self.kill()
            printed = self.printed()
            if not any(text in printed for text in TOO_LATE):
                raise AssertionError(f"{self.name} failed, not for want of time:\n{printed}")
            self.log.rename(self.log.with_suffix(f".{self.starts}"))
        raise AssertionError(f"{self.name} gave up {STARTS_MAX} times:\n{printed}")

    def _gave_up(self) -> bool:
        """It said why, or ended with an error: one that has ended well may have done what is waited for."""
        if self.running:
            return "Exception" in self.printed()
        return self.kill() != 0 or "Exception" in self.printed()

    def sent(self, count: int) -> list[Sent]:
        """Its first so many sends, as it printed them."""

        def enough() -> list[Sent]:
            found = [Sent(status, id_, int(queue), int(offset)) for status, id_, queue, offset in SENT.findall(self.printed())]
            return found if len(found) >= count else []

        return until(enough, f"{count} sends of {self.name}: {self.log}", seconds=SECONDS, alive=self._may_come)

    def _may_come(self) -> bool:
        return self.running or "SendResult" in self.printed()


def create_topic(broker: Subject, topic: str) -> None:
    """A topic of `QUEUES` queues: a consumer looks only every 30 s whether one is there."""
    shape = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "defaultTopic": "TBW102", "perm": "6"}
    queues = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    made = remoting.ask(broker.address, UPDATE_AND_CREATE_TOPIC, {"topic": topic, **shape, **queues})
    assert made.code == 0, made
