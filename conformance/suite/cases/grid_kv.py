"""The grid's rows about the name server's key-value entries: 100, 101, 102, 219."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.grid.expect import NO_LIMIT, NO_PERMISSION, UNREAD, Expect, by_handler, has
from conformance.suite.grid.goods import nobody
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import Answer, Need, ResponseCode, Trial
from rmq_wire.headers.naming import DeleteKVConfig, GetKVConfig, GetKVListByNamespace, PutKVConfig

WHERE = "namesrv DefaultRequestProcessor"
NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
WORD = "conformance"
NO_ENTRY = Expect(code=ResponseCode.QUERY_NOT_FOUND, remark=re.compile("No config item"))


async def forget_keys(t: Trial) -> None:
    """Delete the entries of this case, which nobody else does."""
    mine, _, _ = t.name("key").rpartition("_key_")
    held = await t.names.ask(GetKVListByNamespace(namespace=WORD))
    for key in held.json()["table"] if held.code == ResponseCode.SUCCESS else ():
        if key.startswith(mine):
            await t.names.ask(DeleteKVConfig(namespace=WORD, key=key))


async def putting(t: Trial) -> Asked:
    """An entry."""
    return PutKVConfig(namespace=WORD, key=t.name("key"), value="1")


async def kept(t: Trial) -> tuple[str, str]:
    """Namespace and key of an entry that is there."""
    key = t.name("key")
    t.answer("put", await t.names.ask(PutKVConfig(namespace=WORD, key=key, value="1")))
    return WORD, key


async def getting(t: Trial) -> Asked:
    """An entry that is there."""
    namespace, key = await kept(t)
    return GetKVConfig(namespace=namespace, key=key)


async def deleting(t: Trial) -> Asked:
    """An entry that is there."""
    namespace, key = await kept(t)
    return DeleteKVConfig(namespace=namespace, key=key)


async def listing(t: Trial) -> Asked:
    """A namespace that has an entry."""
    namespace, _ = await kept(t)
    return GetKVListByNamespace(namespace=namespace)


async def is_put(t: Trial, asked: PutKVConfig, _: Answer) -> None:
    """It can be read."""
    t.answer("101 after it", await t.names.ask(GetKVConfig(namespace=WORD, key=asked.key)), ext={"value": "1"})


async def is_deleted(t: Trial, asked: DeleteKVConfig, _: Answer) -> None:
    """It cannot be read any more."""
    t.answer("101 after it", await t.names.ask(GetKVConfig(namespace=WORD, key=asked.key)), code=ResponseCode.QUERY_NOT_FOUND)


row = partial(grid, none=NONE, needs=(Need.NAMESRV,), undo=forget_keys)

row(
    PutKVConfig,
    putting,
    f"{WHERE}.putKVConfig",
    then=is_put,
    missing={"value": UNREAD},
    none={**NONE, "unknown": "a name that nobody knows is what it is for"},
)
row(
    GetKVConfig,
    getting,
    f"{WHERE}.getKVConfig",
    ok=Expect(ext={"value": "1"}),
    missing={"namespace": by_handler(ResponseCode.QUERY_NOT_FOUND), "key": by_handler(ResponseCode.QUERY_NOT_FOUND)},
    cells={
        "unknown-key": Cell(change=nobody("key"), expect=NO_ENTRY),
        "unknown-namespace": Cell(change=nobody("namespace"), expect=NO_ENTRY),
    },
)
row(
    DeleteKVConfig,
    deleting,
    f"{WHERE}.deleteKVConfig",
    then=is_deleted,
    missing={"namespace": UNREAD, "key": UNREAD},
    cells={
        "unknown-key": Cell(change=nobody("key"), expect=Expect()),
        "unknown-namespace": Cell(change=nobody("namespace"), expect=Expect()),
    },
)
row(
    GetKVListByNamespace,
    listing,
    f"{WHERE}.getKVListByNamespace",
    ok=Expect(body=has("table")),
    missing={"namespace": by_handler(ResponseCode.QUERY_NOT_FOUND)},
    cells={"unknown-namespace": Cell(change=nobody("namespace"), expect=NO_ENTRY)},
)
