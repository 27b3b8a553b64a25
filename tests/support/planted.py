"""Cases with a known outcome, for the tests of the suite itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from conformance.suite.case import Case, Level
from conformance.suite.trial import Trial
from rmq_wire.codes import RequestCode

Body = Callable[[Trial], Awaitable[None]]
ASKED = RequestCode.GET_BROKER_RUNTIME_INFO


def planted(id: str, run: Body, level: Level = Level.MUST, **more: Any) -> Case:
    """A case, not entered into the registry."""
    settings: dict[str, Any] = {"codes": (), "needs": frozenset(), "since": (), "slow": False, "alone": False, **more}
    return Case(id, level, f"{id} holds", "Nobody.knows", run=run, module="planted", **settings)


async def passes(trial: Trial) -> None:
    """Asks once; holds."""
    trial.answer("the answer", await trial.broker.ask_raw(ASKED), code=0)


async def fails(trial: Trial) -> None:
    """Asks once; expects what does not come."""
    trial.answer("the answer", await trial.broker.ask_raw(ASKED), code=17)


async def skips(trial: Trial) -> None:
    """Does not apply."""
    trial.skip("not on a Monday")


async def breaks(trial: Trial) -> None:
    """A bug of the suite's."""
    raise LookupError("a bug")
