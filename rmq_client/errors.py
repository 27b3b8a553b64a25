"""What can go wrong, by whose fault it is: the caller's, the network's, a broker's.

Catch the class to know who must act: a `CallerError` comes again however often one tries, a `NetworkError` may pass, a
`BrokerError` says what the broker said.  An error of a send also knows what was tried, and whether the message may be stored
nevertheless.  Nothing of trio, of sockets or of the wire leaves this package.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from rmq_wire.codes import ResponseCode

__all__ = [
    "AnswerLate",
    "BrokerError",
    "CallerError",
    "ClientClosed",
    "ClientError",
    "ConnectionEnded",
    "InvalidMessage",
    "InvalidName",
    "NetworkError",
    "NoBroker",
    "NoQueue",
    "NoRoute",
    "Unreachable",
    "Unreadable",
    "UnreadableBody",
]

_NAMES: Final = {int(code): code.name for code in ResponseCode}
_PASSING: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})
"""What a broker says of its own state, and not of the request."""


class ClientError(Exception):
    """Whatever this package raises.  `fault`: `caller`, `network` or `broker`."""

    fault: ClassVar[str] = "caller"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.attempts: tuple[str, ...] = ()
        """Of a send: what was tried before, `broker: why it failed`, one for each attempt."""
        self.maybe_stored = False
        """Of a send: the request went out and no answer came, or none that can be read, so the message may be stored.

        Sending it again may double it.
        """
        self.sent: tuple[Any, ...] = ()
        """Of a batch in several requests: the `SendResult` of each one that was answered before this error."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(self.attempts) > 1:
            text += f" (tried {len(self.attempts)} times: {'; '.join(self.attempts)})"
        return f"{text} (it may be stored nevertheless)" if self.maybe_stored else text

    @property
    def may_pass(self) -> bool:
        """The same call may succeed later, though the caller changes nothing."""
        return False


class CallerError(ClientError):
    """The call cannot succeed as it is, whatever the servers do."""


class InvalidName(CallerError):
    """No lawful name of a topic or group."""


class InvalidMessage(CallerError):
    """The message cannot be sent as it is.  Java: MQClientException with MESSAGE_ILLEGAL."""


class NoQueue(CallerError):
    """A selector chose no queue, or one that the topic has not."""


class NoRoute(CallerError):
    """No name server knows the topic, and it cannot be made by sending to it.  Java: `No route info of this topic`."""


class ClientClosed(CallerError):
    """The client was left, or never entered."""


class NetworkError(ClientError):
    """A server could not be asked, or did not answer."""

    fault = "network"

    @property
    def may_pass(self) -> bool:
        """Always: a server may come back."""
        return True


class Unreachable(NetworkError):
    """No connection could be opened, or the server takes no requests any more: nothing was done.

    Java: RemotingConnectException.
    """


class ConnectionEnded(NetworkError):
    """The connection ended before the answer came.  Java: RemotingSendRequestException."""


class AnswerLate(NetworkError):
    """No answer in time.  Java: RemotingTimeoutException, RemotingTooMuchRequestException."""


class NoBroker(NetworkError):
    """The route names no broker of this name that could serve this.  Java: `The broker[…] not exist`."""


class BrokerError(ClientError):
    """A server refused.  `code`: its response code, `remark`: its words.  Java: MQBrokerException."""

    fault = "broker"

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        super().__init__(f"{address} answers {code} ({self.name}): {self.remark or 'no remark'}")

    @property
    def name(self) -> str:
        """That of the code, `UNKNOWN` for one that RocketMQ 5.5.0 has not."""
        return _NAMES.get(self.code, "UNKNOWN")

    @property
    def may_pass(self) -> bool:
        """The broker is busy, or does not serve just now; it says nothing of the request."""
        return self.code in _PASSING


class Unreadable(BrokerError):
    """An answer that breaks the protocol.  `done`: its code says that what was asked for is done."""

    def __init__(self, why: str, address: str, *, done: bool = False) -> None:
        self.done = done
        super().__init__(ResponseCode.SYSTEM_ERROR, f"its answer cannot be read: {why}", address)


class UnreadableBody(ClientError):
    """A message's body that fails its check sum, or cannot be unpacked: it is spoilt, or what unpacks it is not installed."""
