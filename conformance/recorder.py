"""Records what a stock client and a server say to each other: a TCP relay on loopback that keeps every frame.

It changes no byte.  A client comes through it because the server advertises the relay's address as its own: a broker that listens
on 127.0.0.1:P with `brokerIP1=127.0.0.2` sends its clients to 127.0.0.2:P, where the relay listens (all of 127/8 is loopback on
Linux).  One thread per direction cuts the stream at the length fields; what has no such fields passes unrecorded.  Headers are
glanced at without `rmq_wire`, which the recorded frames are to judge.

    python -m conformance.recorder --listen 127.0.0.2:10911 --to 127.0.0.1:10911 --out frames.bin
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self

RECEIVE_BYTES: Final = 65_536
FRAME_BYTES_MAX: Final = 16_777_216
"""The reference's `com.rocketmq.remoting.frameMaxLength`; a greater length is not a frame of this protocol."""
RESPONSE: Final = 1
"""Bit of a command's flag."""


class Frame(NamedTuple):
    """One frame as it was seen, its length field included."""

    connection: int
    """Number of the connection, from 0."""
    to_server: bool
    data: bytes


class Glance(NamedTuple):
    """What tells frames apart.  `code` of a response is its response code."""

    form: int
    code: int
    opaque: int
    is_response: bool


def glance(data: bytes) -> Glance:
    """Code, number and direction of a frame, from its JSON (form 0) or binary (form 1) header."""
    _, word = struct.unpack_from(">iI", data)
    form, length = word >> 24, word & 0xFFFFFF
    if form == 0:
        header = json.loads(data[8 : 8 + length])
        return Glance(0, header["code"], header["opaque"], bool(header.get("flag", 0) & RESPONSE))
    code, _, _, opaque, flag = struct.unpack_from(">hbhii", data, 8)
    return Glance(form, code, opaque, bool(flag & RESPONSE))


class Cutter:
    """Cuts a byte stream at its length fields.  Gives up for good at a length that no frame has."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.lost = False

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now."""
        frames: list[bytes] = []
        self._pending += b"" if self.lost else data
        while len(self._pending) >= 4:
            end = 4 + int(struct.unpack_from(">i", self._pending)[0])
            if not 8 <= end <= FRAME_BYTES_MAX:
                self.lost = True
                self._pending.clear()
                break
            if len(self._pending) < end:
                break
            frames.append(bytes(self._pending[:end]))
            del self._pending[:end]
        return frames


class Recorder:
    """Listens at one address, relays each connection to another, and keeps the frames; a context manager."""

    def __init__(self, listen: tuple[str, int], to: tuple[str, int]) -> None:
        """`listen` with port 0 takes a free one; `address` says which.  Both must be loopback addresses."""
        self._to = to
        self._lock = threading.Lock()
        self._frames: list[Frame] = []
        self._open: set[socket.socket] = set()
        self._connections = 0
        self._listener = socket.create_server(listen)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def frames(self) -> list[Frame]:
        """What has passed so far, in the order in which it was complete."""
        with self._lock:
            return list(self._frames)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True, name=f"recorder-{self.address[1]}").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            with self._lock:
                number, self._connections = self._connections, self._connections + 1
                self._open |= {client, server}
            threading.Thread(target=self._serve, args=(client, server, number), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket, number: int) -> None:
        back = threading.Thread(target=self._relay, args=(server, client, number, False), daemon=True)
        back.start()
        self._relay(client, server, number, True)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _relay(self, source: socket.socket, sink: socket.socket, number: int, to_server: bool) -> None:
        cutter = Cutter()
        with contextlib.suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                # Kept before it is passed on, so that an answer can never stand before its question.
                with self._lock:
                    self._frames += [Frame(number, to_server, frame) for frame in cutter.feed(data)]
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def pick(frames: Iterable[Frame], *, per_kind: int = 2, bytes_max: int = 8_192) -> list[Frame]:
    """The first requests of each code and direction, and their answers by outcome: enough to tell a format by.

    Longer frames than `bytes_max` are left out, whole exchanges with them.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    asked: dict[tuple[int, bool, int], int] = {}
    chosen: list[Frame] = []
    for frame in frames:
        seems = glance(frame.data)
        if not seems.is_response:
            asked[frame.connection, frame.to_server, seems.opaque] = seems.code
            kind: tuple[object, ...] = (frame.to_server, seems.form, seems.code)
        else:
            question = asked.get((frame.connection, not frame.to_server, seems.opaque))
            kind = (frame.to_server, seems.form, question, seems.code)
        if len(frame.data) <= bytes_max and seen[kind] < per_kind:
            seen[kind] += 1
            chosen.append(frame)
    return chosen


def describe(frames: Iterable[Frame]) -> str:
    """One line per frame: place in the file, direction, form, code, number, length."""
    lines, at = [], 0
    for frame in frames:
        seems = glance(frame.data)
        arrow = f"{frame.connection}{'->' if frame.to_server else '<-'}"
        kind = "answer" if seems.is_response else "ask"
        form = ("JSON", "ROCKETMQ")[seems.form]
        lines.append(
            f"{at:>7} {arrow:<4} {form:<8} {kind:<6} code={seems.code:<6} opaque={seems.opaque:<5} bytes={len(frame.data)}"
        )
        at += len(frame.data)
    return "\n".join(lines) + "\n"


def save(path: Path, frames: Iterable[Frame], about: str) -> None:
    """Write the frames one after the other (each tells its own length) and, beside them, `about` and their list as text."""
    kept = list(frames)
    path.write_bytes(b"".join(frame.data for frame in kept))
    path.with_suffix(".txt").write_text(f"{about.rstrip()}\n\n{describe(kept)}", encoding="utf-8")


def load(path: Path) -> list[bytes]:
    """The frames of a saved file."""
    cutter = Cutter()
    frames = cutter.feed(path.read_bytes())
    if cutter.lost or sum(map(len, frames)) != path.stat().st_size:
        raise ValueError(f"{path} is not a sequence of whole frames")
    return frames


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Record until end of input (or Ctrl-C), then save everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=_address, required=True, help="address that the server advertises")
    parser.add_argument("--to", type=_address, required=True, help="address on which it listens")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--about", default="", help="what is recorded: command, versions, date")
    options = parser.parse_args()
    with Recorder(options.listen, options.to) as recorder, contextlib.suppress(KeyboardInterrupt, EOFError):
        print(f"recording {options.listen} -> {options.to}; end of input saves")
        while input():
            pass
    save(options.out, recorder.frames(), options.about)


if __name__ == "__main__":
    main()
