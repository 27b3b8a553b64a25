"""A scripted server for tests of captures: one listening socket for name server and broker, answers by a function.

Every request is answered by `answer(command)`: a frame, several, or none.  Small enough to plant any defect in.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Self

from conformance.relay import text_of
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.encoding import encode_response
from rmq_wire.errors import BadFrame

Answer = Callable[[Command], Sequence[bytes]]


def reply(
    command: Command, code: int = 0, *, remark: str | None = None, ext: dict[str, str] | None = None, body: bytes = b""
) -> bytes:
    """The frame of an answer in the form of its question."""
    made = encode_response(code, command.opaque, form=command.form, remark=remark, ext=ext, body=body)
    return made if isinstance(made, bytes) else b"".join(made)


class ScriptedServer:
    """Listens on a free port; a context manager."""

    def __init__(self, answer: Answer, *, broker: str = "broker-a", cluster: str = "DefaultCluster") -> None:
        self._answer = answer
        self._who = (broker, cluster)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = text_of(self._listener.getsockname())
        self.heard: list[bytes] = []
        """Every request, but those for the list of brokers."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        conversation = Conversation()
        with connection, contextlib.suppress(OSError, BadFrame):
            while data := connection.recv(65_536):
                for command in conversation.feed(data):
                    assert isinstance(command, Command)
                    if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
                        connection.sendall(reply(command, body=self._cluster()))
                        continue
                    self.heard.append(data)
                    for frame in self._answer(command):
                        connection.sendall(frame)

    def _cluster(self) -> bytes:
        name, cluster = self._who
        return (
            b'{"brokerAddrTable":{"%b":{"brokerAddrs":{0:"%b"},"brokerName":"%b","cluster":"%b"}},"clusterAddrTable":{"%b":["%b"]}}'
            % (*(part.encode() for part in (name, self.address, name, cluster, cluster, name)),)
        )
