"""One question of a broker, and how it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from rmq_client.connections import Reply
from rmq_wire.command import Command, encode_response


@dataclass(frozen=True, slots=True)
class BrokerCall:
    """One question of a broker.  `reply` sends what `answer` makes, where that takes time."""

    address: str
    command: Command
    reply: Reply

    def answer(self, code: int, remark: str | None = None, body: bytes = b"") -> bytes:
        """The frame of the answer."""
        frame = encode_response(code, self.command.opaque, form=self.command.form, remark=remark, body=body)
        return frame if isinstance(frame, bytes) else b"".join(frame)
