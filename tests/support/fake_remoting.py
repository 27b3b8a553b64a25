"""A server of a few lines that answers remoting requests as a script says, in process: what the suite's own tests ask.

`serve` runs it in a nursery of the test's; `FakeSubject` runs it in a thread, behind the face of a subject.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from conformance.subjects.base import SubjectFailed, Target
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.encoding import encode_response


class HangUp(Exception):
    """A script's way to end the connection."""


Script = Callable[[Command], bytes]
"""What is sent for a request: nothing, an answer, several frames, garbage."""


def answer(asked: Command, code: int = 0, *, remark: str | None = None, body: bytes = b"") -> bytes:
    """An answer's frame."""
    frame = encode_response(code, asked.opaque, form=asked.form, remark=remark, body=body)
    return frame if isinstance(frame, bytes) else b"".join(frame)


def agreeable(asked: Command) -> bytes:
    """SUCCESS to everything."""
    return answer(asked)


async def serve(nursery: trio.Nursery, script: Script = agreeable) -> str:
    """Serve in the nursery; the address."""
    listeners = await nursery.start(_serve, script)
    return f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"


async def _serve(script: Script, task_status: trio.TaskStatus[list[trio.SocketListener]]) -> None:
    async def handle(stream: trio.SocketStream) -> None:
        conversation = Conversation()
        try:
            while data := await stream.receive_some():
                for command in conversation.feed(data):
                    assert isinstance(command, Command)
                    await stream.send_all(script(command))
        except (HangUp, trio.BrokenResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    await trio.serve_tcp(handle, 0, host="127.0.0.1", task_status=task_status)


def target_at(address: str, *, label: str = "fake", kind: str = "ours", version: tuple[int, ...] | None = (5, 5, 0)) -> Target:
    """A target whose name server and broker are one."""
    return Target(label, kind, version, address, address, "broker-a", "DefaultCluster")


@dataclass
class FakeSubject:
    """The server in a thread of its own, until it is left."""

    label: str = "fake"
    script: Script = agreeable
    hindered: str = ""
    """Why it cannot be had."""
    living: Callable[[], bool] = lambda: True
    kind: str = "ours"
    entered: int = 0
    left: int = 0
    _end: list[Callable[[], None]] = field(default_factory=list)

    def __enter__(self) -> Target:
        if self.hindered:
            raise SubjectFailed(self.hindered)
        self.entered += 1
        ready, found, scope = threading.Event(), list[str](), trio.CancelScope()

        async def run() -> None:
            token = trio.lowlevel.current_trio_token()
            self._end.append(lambda: token.run_sync_soon(scope.cancel))
            with scope:
                async with trio.open_nursery() as nursery:
                    found.append(await serve(nursery, self.script))
                    ready.set()

        thread = threading.Thread(target=trio.run, args=(run,), daemon=True)
        thread.start()
        ready.wait()
        self._end.append(thread.join)
        return target_at(found[0], label=self.label, kind=self.kind)

    def __exit__(self, *_: object) -> None:
        self.left += 1
        for step in self._end:
            step()
        self._end.clear()

    def alive(self) -> bool:
        return self.living()

    def log_tail(self, characters: int = 4_000) -> str:
        return ""

    def collect_logs(self, into: Path) -> None:
        into.mkdir(parents=True)
        (into / "server.log").write_text("it served\n")
