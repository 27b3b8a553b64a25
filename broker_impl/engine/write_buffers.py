"""Answers on their way out: encoded, and gathered per peer until the turn ends.

Ready frames go through untouched; headers and replies are encoded here, in the form the request came in.  An answer that
cannot be encoded is our bug and becomes SYSTEM_ERROR for that asker.
"""

from __future__ import annotations

from broker_impl.engine.answers import Frame, Reply, Settled
from broker_impl.engine.peer import Peer
from rmq_net.log import Log, plain_text
from rmq_net.service import Buffer, Output
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form, encode_response
from rmq_wire.declare import Header
from rmq_wire.encoding import encode_bare


class WriteBuffers:
    """The write buffers of all peers; `dirty` are those with something to send or to close."""

    def __init__(self, log: Log) -> None:
        self.dirty: list[Peer] = []
        self.gathered_bytes = 0
        """Of all peers together, since the last `take`."""
        self._log = log

    def emit(self, peer: Peer, opaque: int, form: Form, answer: Settled) -> None:
        """Put an answer into the peer's write buffer.  Dropped when the peer has gone."""
        if peer.closing is not None or peer.closed:
            return
        frame = answer if isinstance(answer, bytes) else self._encoded(opaque, form, answer)
        if isinstance(frame, bytes):  # `push`, without the call
            write_buffer = peer.write_buffer
            if not write_buffer:
                self.dirty.append(peer)
            write_buffer.append(frame)
            size = len(frame)
            peer.unsent_bytes += size
            self.gathered_bytes += size
        else:
            for chunk in frame:
                self.push(peer, chunk)

    def push(self, peer: Peer, chunk: Buffer) -> None:
        """Put bytes into the write buffer; the chunk must stay as it is until they are sent."""
        write_buffer = peer.write_buffer
        if not write_buffer:
            self.dirty.append(peer)
        write_buffer.append(chunk)
        size = len(chunk)
        peer.unsent_bytes += size
        self.gathered_bytes += size

    def touch(self, peer: Peer) -> None:
        """The shell should look at this peer after the turn, though there may be nothing to send."""
        if not peer.write_buffer:
            self.dirty.append(peer)

    def take(self, now_ms: int) -> list[Output]:
        """Everything gathered since the last call."""
        dirty, self.dirty = self.dirty, []
        self.gathered_bytes = 0
        outputs: list[Output] = []
        for peer in dirty:
            if not peer.closed:
                outputs.append((peer, peer.write_buffer, peer.closing is not None))
                peer.write_buffer = []
                peer.last_ms = now_ms
        return outputs

    def _encoded(self, opaque: int, form: Form, answer: Header | Reply | list[Buffer]) -> Frame:
        if isinstance(answer, list):
            return answer
        reply = Reply(header=answer) if isinstance(answer, Header) else answer
        if reply.is_bare and form is Form.JSON:
            return encode_bare(reply.code, opaque)
        try:
            return encode_response(
                reply.code, opaque, form=form, remark=reply.remark, header=reply.header, ext=reply.ext, body=reply.body
            )
        except Exception as error:
            why = f"{type(error).__name__}: {plain_text(error)}"
            self._log.error("an answer (%s) cannot be written: %s", type(reply.header).__name__, why, error=error)
            return encode_response(ResponseCode.SYSTEM_ERROR, opaque, form=form, remark=why)
