"""What the parts of one engine share: environment, limits, counters, deadlines, write buffers, jobs, and who takes errors.

`guard` runs what nobody waits for; `excuse` words what an asker gets for an error; `deliver` sends the answer of an earlier turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker_impl.engine.answers import Durable, Refusal, Reply, Settled, refusal_reply
from broker_impl.engine.counters import Counters
from broker_impl.engine.deadlines import Deadlines
from broker_impl.engine.limits import Limits
from broker_impl.engine.peer import Peer
from broker_impl.engine.write_buffers import WriteBuffers
from broker_impl.env import Env
from rmq_net.log import plain_text
from rmq_net.service import Job
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form
from rmq_wire.errors import WireError

Mark = tuple[int, int, int]
"""Where stagings stood: of the store, of the answers, of those who wait for the commit."""
NOTHING_STAGED: Mark = (0, 0, 0)


class Stagings(Protocol):
    """What is staged in the running turn (`engine.commits`)."""

    def mark(self) -> Mark: ...
    def undo(self, mark: Mark, error: Exception) -> None: ...
    def finish(self, peer: Peer, opaque: int, form: Form, answer: Settled | Durable, mark: Mark) -> None: ...


class Loop:
    """`stagings` is set by who commits."""

    stagings: Stagings

    def __init__(self, env: Env, limits: Limits) -> None:
        self.env = env
        self.limits = limits
        self.counters = Counters()
        self.deadlines = Deadlines()
        self.buffers = WriteBuffers(env.log)
        self.emit = self.buffers.emit
        self.deliver: Callable[[Peer, int, Form, Settled | Durable | Refusal], None] = self._deliver
        self._jobs: list[Job] = []

    def job(self, job: Job) -> None:
        """Have something that blocks done by one of the shell's threads.  What `done` raises is logged."""
        self._jobs.append(job._replace(done=lambda result, error: self.guard(job.done, result, error)))

    def take_jobs(self) -> Sequence[Job]:
        """What threads should do now."""
        if not self._jobs:
            return ()
        jobs, self._jobs = self._jobs, []
        return jobs

    def guard(self, action: Callable[..., object], *arguments: object) -> None:
        """Run something of a capability's.  What it raises is logged, its stagings are dropped, nobody else notices."""
        mark = self.stagings.mark()
        try:
            action(*arguments)
        except Exception as error:
            self.stagings.undo(mark, error)
            self.bug(repr(action), error)

    def bug(self, what: str, error: BaseException) -> None:
        """An error of ours that no asker gets."""
        self.counters.errors += 1
        self.env.log.error("%s failed: %s", what, str(error), error=error)

    def excuse(self, error: Exception, peer: Peer, code: int) -> Reply:
        """What the asker gets for an error.  A lawful no and a bad request are quiet; the rest is a bug and logged as one."""
        if isinstance(error, Refusal):
            return refusal_reply(error)
        why = f"{type(error).__name__}: {plain_text(error)}"
        if not isinstance(error, WireError):
            self.counters.errors += 1
            self.env.log.error("%s:%d request %d failed: %s", *peer.remote, code, why, error=error)
        return Reply(code=ResponseCode.SYSTEM_ERROR, remark=why)

    def _deliver(self, peer: Peer, opaque: int, form: Form, answer: Settled | Durable | Refusal) -> None:
        """Send the answer of a request of an earlier turn."""
        settled = refusal_reply(answer) if isinstance(answer, Refusal) else answer
        self.stagings.finish(peer, opaque, form, settled, self.stagings.mark())
