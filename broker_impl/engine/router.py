"""Which method answers which code, settled before the first request.

A capability marks its methods with `@answers(RequestClass, …)`.  The router collects them and refuses to exist when a code
of its role is answered twice, or neither answered nor refused with a reason (`refused.py`): a code cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from broker_impl.engine.answers import Answer, Row
from broker_impl.engine.body_limits import HEAVY_BYTES, NEVER_HEAVY
from broker_impl.engine.call import Call
from rmq_wire.declare import REQUESTS, Request, Role

Handler = Callable[[Call, Any], Answer]
M = TypeVar("M", bound=Callable[..., Any])

_MARK = "_answers"


class Capability:
    """A group of handlers and what they work on.  Its collaborators come in by `__init__`; capabilities never know each other."""


def answers(*requests: type[Request], stages: bool = False, in_order: bool = False, bulky: bool = False) -> Callable[[M], M]:
    """Mark a method `(self, call, header) -> Answer` as the one that answers these requests."""

    def mark(method: M) -> M:
        setattr(method, _MARK, (requests, stages, in_order, bulky))
        return method

    return mark


class Router:
    """The table of one role.

    `refused`: code -> why we do not answer it (the asker gets REQUEST_CODE_NOT_SUPPORTED, as from a server that does not
    know it).
    `complete=False` leaves out the check that every code is settled: for tests of single capabilities.
    Raises `TypeError` naming every code that is answered twice, answered and refused, or silent.
    """

    def __init__(
        self,
        role: Role,
        capabilities: Iterable[Capability],
        refused: Mapping[int, str] | None = None,
        *,
        complete: bool = True,
    ) -> None:
        self.role = role
        self.refused = dict(refused or {})
        self.rows: dict[int, Row] = {}
        faults: list[str] = []
        for capability in capabilities:
            for request, row, name in _marked(capability):
                if role not in request.to:
                    faults.append(f"{name} answers {request.__name__}, which is not for {role.name}")
                elif request.code in self.rows:
                    faults.append(f"code {int(request.code)} ({request.__name__}) is answered twice, also by {name}")
                elif request.code in self.refused:
                    faults.append(f"code {int(request.code)} ({request.__name__}) is refused, and answered by {name}")
                else:
                    self.rows[int(request.code)] = row
        if complete:
            settled = self.rows.keys() | self.refused.keys()
            for (asked, code), request in sorted(REQUESTS.items(), key=lambda item: item[0][1]):
                if asked == role and code not in settled:
                    faults.append(f"code {int(code)} ({request.__name__}) is neither answered nor refused")
        if faults:
            raise TypeError("; ".join(faults))

    def without(self, hidden: frozenset[int]) -> dict[int, Row]:
        """The rows of a listener that does not take some codes (the fast port takes no pulls)."""
        return {code: row for code, row in self.rows.items() if code not in hidden}


def _marked(capability: Capability) -> Iterable[tuple[type[Request], Row, str]]:
    for name in dir(type(capability)):
        mark = getattr(getattr(type(capability), name), _MARK, None)
        if mark is not None:
            requests, stages, in_order, bulky = mark
            for request in requests:
                heavy_bytes = HEAVY_BYTES.get(int(request.code), NEVER_HEAVY)
                row = Row(request, getattr(capability, name), stages, in_order, bulky, heavy_bytes)
                yield request, row, f"{type(capability).__name__}.{name}"
