"""The reference of the Python client, docs/client-reference.md: its public classes as their docstrings and signatures say.

What a field means stands in the line of text after it in the source, as everywhere in this repository.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import rmq_client
from rmq_client import aio, blocking, client, errors, groups, messages, settings, signing, topics
from rmq_client.consuming import allocation, listener, pull_result, pulling, push_consumer, received, subscriptions
from rmq_client.producing import producer

SECTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "Connecting": (client.connect, client.Client, settings.ClientSettings, signing.Credentials),
    "Messages": (messages.Message, messages.SendResult, messages.SendStatus, received.ReceivedMessage),
    "Producing": (producer.Producer, settings.ProducerSettings),
    "Consuming": (
        push_consumer.PushConsumer,
        settings.ConsumerSettings,
        subscriptions.Subscription,
        listener.ConsumeConcurrentlyContext,
        listener.ConsumeConcurrentlyStatus,
        listener.ConsumeOrderlyContext,
        listener.ConsumeOrderlyStatus,
    ),
    "Sharing queues out": (
        allocation.AllocateMessageQueueAveragely,
        allocation.AllocateMessageQueueAveragelyByCircle,
        allocation.AllocateMessageQueueByConfig,
        allocation.AllocateMessageQueueByMachineRoom,
        allocation.AllocateMachineRoomNearby,
        allocation.AllocateMessageQueueConsistentHash,
    ),
    "Reading": (pulling.Puller, pull_result.PullResult, pull_result.PullStatus),
    "Topics and groups": (
        topics.Topics,
        topics.TopicState,
        topics.BrokerState,
        topics.QueueState,
        groups.Groups,
        groups.GroupLag,
        groups.QueueLag,
    ),
    "Errors": tuple(getattr(errors, name) for name in errors.__all__),
    "Other faces": (blocking.connect, aio.connect),
}
INTRODUCTION: Final = """# Reference of the Python client

Made from the docstrings by `make pages`; [client.md](client.md) says how to use it. The same methods are there in three faces:
with `await` on trio (`rmq_client`, described here), with `await` on asyncio (`rmq_client.aio`), and without
(`rmq_client.blocking`).
"""


def text() -> str:
    """The page."""
    lines = [INTRODUCTION]
    for heading, members in SECTIONS.items():
        lines.append(f"## {heading}\n")
        for member in members:
            lines += _class(member) if inspect.isclass(member) else _function(member, "###", _home(member) + ".")
    return "\n".join(lines).rstrip("\n") + "\n"


def _home(member: Any) -> str:
    """Whence it is imported."""
    return "rmq_client" if getattr(rmq_client, member.__name__, None) is member else str(member.__module__)


def _class(kind: type) -> Iterator[str]:
    base = kind.__bases__[0].__name__
    of = f" ({base})" if issubclass(kind, Exception) else ""
    yield f"### `{_home(kind)}.{kind.__name__}`{of}\n"
    yield _paragraphs(kind)
    if issubclass(kind, Enum):
        yield " ".join(f"`{one.name}`" for one in kind) + "\n"
        return
    if dataclasses.is_dataclass(kind):
        yield from _fields(kind)
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {_one_line(member.fget)}"
        elif inspect.isfunction(member) and not issubclass(kind, Exception):
            asynchronous = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"- `{asynchronous}{name}{_signature(member)}`: {_one_line(member)}"
        elif hasattr(member, "func") and member.__doc__:  # a cached property
            yield f"- `{name}`: {_one_line(member)}"
    yield ""


def _fields(kind: Any) -> Iterator[str]:
    said = {}
    for one in reversed(kind.__mro__[:-1]):
        said |= _field_texts(one)
    yield "| field | default | |"
    yield "| --- | --- | --- |"
    for field in dataclasses.fields(kind):
        default = "" if field.default is dataclasses.MISSING else f"`{_shown(field.default)}`"
        yield f"| `{field.name}: {_cell(str(field.type))}` | {_cell(default)} | {_cell(said.get(field.name, ''))} |"
    yield ""


def _field_texts(kind: type) -> dict[str, str]:
    """Field -> the text that follows it in the source."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, after in zip(tree.body, tree.body[1:], strict=False):
        said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(said, str):
            found[one.target.id] = " ".join(said.split())
    return found


def _function(function: Any, level: str, before: str) -> Iterator[str]:
    yield f"{level} `{before}{function.__name__}{_signature(function)}`\n"
    yield _paragraphs(function)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    shown = str(signature.replace(parameters=own))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)  # annotations are texts


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(getattr(one, "name", str(one)) for one in value))
    return repr(value)


def _paragraphs(member: Any) -> str:
    return (inspect.getdoc(member) or "") + "\n"


def _one_line(member: Any) -> str:
    return " ".join((inspect.getdoc(member) or "").split())


def _cell(said: str) -> str:
    return said.replace("|", "\\|")
