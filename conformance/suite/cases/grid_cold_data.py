"""The grid's rows about flow control of cold reads: 2001 to 2004.  Each puts back what it changed."""

from __future__ import annotations

from functools import partial

from conformance.suite.grid.expect import INVALID, NEVER_MIND, NO_LIMIT, NO_PERMISSION, NOTHING_TO_DO, REFUSED, Expect, has
from conformance.suite.grid.goods import plain
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import QUIRK, Answer, Need, Trial
from rmq_wire.headers.cold_data import (
    GetColdDataFlowCtrInfo,
    RemoveColdDataFlowCtrConfig,
    SetCommitLogReadMode,
    UpdateColdDataFlowCtrConfig,
)

GROUP = "CONF_cold_group"


async def limited(t: Trial) -> Asked:
    """A threshold for one group."""
    return UpdateColdDataFlowCtrConfig(), f"{GROUP}=1024".encode()


async def not_a_number(t: Trial) -> Asked:
    """A threshold that is no number."""
    return UpdateColdDataFlowCtrConfig(), f"{GROUP}=many".encode()


async def unlimited(t: Trial) -> Asked:
    """No threshold any more."""
    return RemoveColdDataFlowCtrConfig(), GROUP.encode()


async def is_limited(t: Trial, _: object, __: Answer) -> None:
    """The threshold is listed."""
    found = t.answer("2003 after it", await t.broker.ask(GetColdDataFlowCtrInfo()))
    t.check("the threshold is listed", GROUP in found.body.decode())


async def is_unlimited(t: Trial, _: object, __: Answer) -> None:
    """The threshold is not listed."""
    found = t.answer("2003 after it", await t.broker.ask(GetColdDataFlowCtrInfo()))
    t.check("the threshold is not listed", GROUP not in found.body.decode())


async def forget(t: Trial) -> None:
    """Put back what was changed."""
    await t.broker.ask(RemoveColdDataFlowCtrConfig(), GROUP.encode())
    await t.broker.ask(SetCommitLogReadMode(read_ahead_mode="0"))


row = partial(grid, none={"permission": NO_PERMISSION, "limit": NO_LIMIT}, since=(5,))

row(
    UpdateColdDataFlowCtrConfig,
    limited,
    "AdminBrokerProcessor.updateColdDataFlowCtrGroupConfig",
    then=is_limited,
    body=True,
    cells={"unknown-number": Cell(ask=not_a_number, expect=NOTHING_TO_DO, level=QUIRK)},
    missing={"body": NOTHING_TO_DO},
    mistyped={"body": NOTHING_TO_DO},
    undo=forget,
    alone=True,
    needs=(Need.OWN,),
)
row(
    RemoveColdDataFlowCtrConfig,
    unlimited,
    "AdminBrokerProcessor.removeColdDataFlowCtrGroupConfig",
    then=is_unlimited,
    body=True,
    cells={"unknown-group": Cell(body=b"CONF_nobody", expect=Expect())},
    missing={"body": NOTHING_TO_DO},
    mistyped={"body": Expect()},
    undo=forget,
    alone=True,
    needs=(Need.OWN,),
)
row(
    GetColdDataFlowCtrInfo,
    plain(GetColdDataFlowCtrInfo),
    "AdminBrokerProcessor.getColdDataFlowCtrInfo",
    ok=Expect(body=has("runtimeTable", "configTable")),
    none=NEVER_MIND,
)
row(
    SetCommitLogReadMode,
    plain(lambda: SetCommitLogReadMode(read_ahead_mode="0")),
    "AdminBrokerProcessor.setCommitLogReadaheadMode",
    missing={"READ_AHEAD_MODE": REFUSED},
    cells={"unknown-mode": Cell(change={"READ_AHEAD_MODE": "7"}, expect=INVALID)},
    undo=forget,
    alone=True,
    needs=(Need.OWN,),
)
