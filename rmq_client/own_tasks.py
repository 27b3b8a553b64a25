"""A nursery for what a block needs until it has been left: a cancel reaches the block, and these tasks only after it.

Who is cancelled has last words: progress, goodbyes, locks that are given back.  They need connections and listeners that a
nursery of the block itself would have lost to the same cancel already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def own_nursery() -> AsyncIterator[trio.Nursery]:
    """Its tasks are cancelled when the block has been left.  An error of one cancels all and comes out, in a group.

    An error of the block comes out as it is.
    """
    failed: BaseException | None = None
    raised: BaseException | None = None
    async with trio.open_nursery() as outer:

        async def run(task_status: trio.TaskStatus[trio.Nursery]) -> None:
            nonlocal failed
            try:
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as nursery:
                        task_status.started(nursery)
                        try:
                            await trio.sleep_forever()
                        finally:  # where a task failed, the block is not to see first what the others leave: lost connections
                            outer.cancel_scope.cancel()
            except BaseException as error:
                failed = error

        with trio.CancelScope(shield=True):  # cancelled half-way it would have a task that nobody could end
            nursery: trio.Nursery = await outer.start(run)
        try:
            yield nursery
        except BaseException as error:
            raised = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    if raised is not None:
        raise raised
