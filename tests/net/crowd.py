"""Thousands of connections in a process of their own: a plain epoll loop that does what stdin says.

    python -m tests.net.crowd PORT COUNT

`open`: connect and send frame 0 on each connection, wait for all answers.  `beat`: send frame 0 on each again, wait.
`each FILE`: send line i of the file (hex) on connection i, beginning again with the first when there are more lines, do not wait.
`wait N`: until N bytes-with-an-answer connections have spoken.  `drop`: close all. Answers one line per command: `ok COUNT`.
"""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path


class Crowd:
    def __init__(self, port: int, count: int) -> None:
        self.port = port
        self.count = count
        self.socks: list[socket.socket] = []
        self.frame = b""
        self.epoll = select.epoll()
        self.by_fd: dict[int, socket.socket] = {}

    def command(self, words: list[str]) -> int:
        match words:
            case ["frame", text]:
                self.frame = bytes.fromhex(text)
                return 0
            case ["open"]:
                while len(self.socks) < self.count:
                    for _ in range(min(200, self.count - len(self.socks))):
                        sock = socket.create_connection(("127.0.0.1", self.port))
                        self.socks.append(sock)
                        self.by_fd[sock.fileno()] = sock
                        self.epoll.register(sock.fileno(), select.EPOLLIN)
                        sock.sendall(self.frame)
                    self.heard(len(self.socks) % 200 or min(200, len(self.socks)))
                return len(self.socks)
            case ["beat"]:
                for sock in self.socks:
                    sock.sendall(self.frame)
                return self.heard(len(self.socks))
            case ["each", path]:
                frames = [bytes.fromhex(line) for line in Path(path).read_text().split()]
                for number, sock in enumerate(self.socks):
                    sock.sendall(b"".join(frames[number :: len(self.socks)]))
                return len(frames)
            case ["wait", count]:
                return self.heard(int(count))
            case ["drop"]:
                for sock in self.socks:
                    sock.close()
                self.socks.clear()
                return 0
        raise ValueError(words)

    def heard(self, count: int) -> int:
        """Wait until so many receives have brought something."""
        heard = 0
        while heard < count:
            for fd, _event in self.epoll.poll(30):
                if not self.by_fd[fd].recv(1 << 16):
                    raise ConnectionError("closed by the server")
                heard += 1
        return heard


def main() -> None:
    crowd = Crowd(int(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin:
        print("ok", crowd.command(line.split()), flush=True)


if __name__ == "__main__":
    main()
