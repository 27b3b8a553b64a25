"""How the end of long work is told to whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.call import Parked, Refusal, Reply
from rmq_net.log import plain_text
from rmq_wire.codes import ResponseCode


def acknowledge(asker: Parked) -> Callable[[object, BaseException | None], None]:
    """What tells the asker that long work is done, or why it is not."""

    def tell(_result: object, error: BaseException | None) -> None:
        asker.answer(Reply() if error is None else Refusal(ResponseCode.SYSTEM_ERROR, plain_text(error)))

    return tell
