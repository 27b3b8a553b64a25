"""A RocketMQ client: `connect`, then `client.producer(group)`, `client.puller(group)`.  docs/client.md is the tutorial.

The names below are imported when they are first used, so that `import rmq_client` costs nothing, and who takes `Message` or an
error does not wait for what talks to servers.  `connect` and `Client` are those of trio; the other two faces are
`rmq_client.blocking` and `rmq_client.aio`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmq_client import aio as aio
    from rmq_client import blocking as blocking
    from rmq_client.client import Client as Client
    from rmq_client.client import connect as connect
    from rmq_client.consuming.listener import ConsumeConcurrentlyContext as ConsumeConcurrentlyContext
    from rmq_client.consuming.listener import ConsumeConcurrentlyStatus as ConsumeConcurrentlyStatus
    from rmq_client.consuming.listener import ConsumeOrderlyContext as ConsumeOrderlyContext
    from rmq_client.consuming.listener import ConsumeOrderlyStatus as ConsumeOrderlyStatus
    from rmq_client.consuming.pull_result import PullResult as PullResult
    from rmq_client.consuming.pull_result import PullStatus as PullStatus
    from rmq_client.consuming.received import ReceivedMessage as ReceivedMessage
    from rmq_client.consuming.subscriptions import SQL92 as SQL92
    from rmq_client.consuming.subscriptions import Subscription as Subscription
    from rmq_client.errors import BrokerError as BrokerError
    from rmq_client.errors import CallerError as CallerError
    from rmq_client.errors import ClientError as ClientError
    from rmq_client.errors import NetworkError as NetworkError
    from rmq_client.messages import Message as Message
    from rmq_client.messages import MessageQueue as MessageQueue
    from rmq_client.messages import SendResult as SendResult
    from rmq_client.messages import SendStatus as SendStatus
    from rmq_client.signing import Credentials as Credentials

_NAMES = {
    "client": ("Client", "connect"),
    "consuming.listener": (
        "ConsumeConcurrentlyContext",
        "ConsumeConcurrentlyStatus",
        "ConsumeOrderlyContext",
        "ConsumeOrderlyStatus",
    ),
    "consuming.pull_result": ("PullResult", "PullStatus"),
    "consuming.received": ("ReceivedMessage",),
    "consuming.subscriptions": ("SQL92", "Subscription"),
    "errors": ("BrokerError", "CallerError", "ClientError", "NetworkError"),
    "messages": ("Message", "MessageQueue", "SendResult", "SendStatus"),
    "signing": ("Credentials",),
}
_MODULES = {name: f"rmq_client.{module}" for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in ("aio", "blocking"):
        return import_module(f"rmq_client.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "aio", "blocking"})
