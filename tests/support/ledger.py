"""The ledger: what RocketMQ 5.5.0 really does where five articles speak of it, whose work it is, and which tests show it.

`docs/semantics.toml` is the table and says what its fields mean; `make pages` makes `docs/semantics.md` from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from conformance.suite.report.markdown import table

TABLE: Final = Path(__file__).parents[2] / "docs" / "semantics.toml"
CASE: Final = "case:"
TORTURE: Final = "torture:"
STOCK: Final = ("tests/java/", "tests/client/test_stock_clients.py::", TORTURE)
"""How the tests begin in which Java's client takes part."""
ARTICLES: Final = {
    "000": "Messages in order",
    "001": "Store, choice of queues, index, rebalance, progress, retries, dead letters",
    "002": "Delay levels",
    "003": "Consumption that fails",
    "004": "POP",
}
OWNERS: Final = {
    "store": "the files, and what becomes of them",
    "order and time": "locks, order, delay levels, timers, what is given back",
    "groups": "routes, members, progress, retry topics",
    "pop": "POP consumption",
    "client": "what a client does",
    "advice": "nothing to test",
    "later": "the proxy and its gRPC clients",
}
"""Who makes the statements true of our own servers and clients, in the order of the page."""
HEAD: Final = """# What RocketMQ really does

Made from `semantics.toml` by `make pages`.

Five articles about RocketMQ 4.x and 5.0 describe how it works. Here is what 5.5.0 does, statement by statement, and which tests
show it. Those in [conformance.md](conformance.md) are cases that run against the real servers as well as ours; those in
[torture.md](torture.md) and in `tests/java` run with stock Java clients; the others judge ours. Where ours departs from the
reference on purpose is in [differences.md](differences.md).

The verdict is on the article: *holds*; *partly*, *outdated*, *wrong*, with what it says; *silent*: a fact that it leaves out;
*advice*: a judgement. A row without a test is one that nobody shows yet; whose work it is may not land before it has one.

*Ours only*: the fact is about Java's client, and the tests are of our servers and our Python client alone. That Java's does so
was read in its source.
"""


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row."""

    id: str
    owner: str
    verdict: Literal["holds", "partly", "outdated", "wrong", "silent", "advice"]
    fact: str
    said: str = ""
    tests: tuple[str, ...] = ()


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    landed: tuple[str, ...]
    statement: tuple[Statement, ...]


def load(path: Path = TABLE) -> Ledger:
    """The table as it stands in its file."""
    return msgspec.toml.decode(path.read_bytes(), type=Ledger)


def text(ledger: Ledger | None = None) -> str:
    """The page."""
    return "\n".join(_parts(ledger or load())) + "\n"


def _parts(ledger: Ledger) -> Iterator[str]:
    yield HEAD
    counts: list[tuple[object, ...]] = []
    for owner, what in OWNERS.items():
        rows = [row for row in ledger.statement if row.owner == owner]
        counts.append((f"{owner} (landed)" if owner in ledger.landed else owner, len(rows), _shown(rows), what))
    counts.append(("all", len(ledger.statement), _shown(ledger.statement), ""))
    yield table(("owner", ":statements", ":with a test", ""), counts)
    for article, title in ARTICLES.items():
        yield f"\n## {article}: {title}\n"
        rows = [row for row in ledger.statement if row.id.startswith(article)]
        yield table(("", "RocketMQ 5.5.0", "the article", "owner", "shown by"), map(_cells, rows))


def _cells(row: Statement) -> Sequence[str]:
    verdict = f"{row.verdict}: “{row.said}”" if row.said else row.verdict
    shown = [*(["*ours only*"] if _is_ours_only(row) else []), *map(_link, row.tests)]
    return f'<a id="{row.id}"></a>{row.id}', row.fact, verdict, row.owner, "<br>".join(shown)


def _is_ours_only(row: Statement) -> bool:
    is_shown_fact = row.owner == "client" and row.verdict != "advice" and bool(row.tests)
    return is_shown_fact and not any(test.startswith(STOCK) for test in row.tests)


def _shown(rows: Iterable[Statement]) -> int:
    return sum(bool(row.tests) for row in rows)


def _link(test: str) -> str:
    """A test, as a link to where it is explained or stands."""
    if test.startswith(CASE):
        name = test.removeprefix(CASE)
        return f"[{name}](conformance.md#{name})"
    if test.startswith(TORTURE):
        name = test.removeprefix(TORTURE)
        return f"[torture {name}](torture.md#{name})"
    path, _, name = test.partition("::")
    return f"[{name}](../{path})"
