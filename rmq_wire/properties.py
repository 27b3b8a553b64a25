"""Message properties: `name 0x01 value 0x02` over and over, and the order in which Java writes them.

The reference parses the string of every send into a `HashMap` of 128 buckets, adds what a broker adds, and writes it down in
the map's own order.  The order depends on the names alone, so `Rewriter` remembers one plan per tuple of names that it has
seen: the hot path is one split, one dictionary, one look-up, one format.  Strings that no client writes (stray separators,
more than 32 names) take the slow path, which goes through the reference's steps one by one.
Sources: `MessageDecoder.string2messageProperties`, `messageProperties2String`; `AbstractSendMessageProcessor.buildMsgContext`,
`SendMessageProcessor.sendMessage`; `MessageUtils.deleteProperty`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from rmq_wire import property_names as prop
from rmq_wire.java import iteration_order, permutation

NAME_END: Final = "\x01"
PAIR_END: Final = "\x02"
REQUEST_BUCKETS: Final = 128
"""Of the map that `string2messageProperties` makes."""
ENCODED_BYTES_MAX: Final = 32767
"""The length is a Java short.  Longer ones are refused by whoever stores them (PROPERTIES_SIZE_EXCEEDED)."""
HOPELESS_CHARACTERS: Final = 2 * ENCODED_BYTES_MAX
"""A longer string is not even read: half of it would have to be senseless for the rest to be storable."""
ORDERED_NAMES_MAX: Final = 512
"""Above it pairs stay in the order in which they came: hashing them all would let one client stop the others for milliseconds."""
PLANNED_NAMES_MAX: Final = 32
"""Above it a tuple of names is not remembered: real clients send 4 to 15."""
PLANNED_CHARACTERS_MAX: Final = 1024
"""Of all names together: neither are names that no client would choose, or memory would be the client's to fill."""
PLANS_MAX: Final = 1024
"""Plans held at once, 2 KiB each and mostly far less."""

_split: Final[Callable[[str, str], Any]] = str.split
_NAME_ENDS: Final = repeat(NAME_END)


def decode(text: str) -> dict[str, str]:
    """Names to values in the order of first appearance; the last of two values wins; pairs without name or value are dropped."""
    pairs = text.split(PAIR_END)
    if not pairs[-1]:
        pairs.pop()
    try:
        found: dict[str, str] = dict(map(_split, pairs, _NAME_ENDS))
    except ValueError:  # a pair with no or more than one 0x01 in it
        return _decode_slowly(pairs)
    if len(found) == len(pairs) and "" not in found and all(found.values()):
        return found
    return _decode_slowly(pairs)


def _decode_slowly(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def encode(pairs: Mapping[str, str]) -> str:
    """In the order given; every pair ends with 0x02."""
    return "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()])


def java_order(pairs: Mapping[str, str], buckets: int = REQUEST_BUCKETS) -> dict[str, str]:
    """The pairs, given in the order of insertion, in the order in which a Java `HashMap` of so many buckets is walked."""
    inserted = tuple(pairs)
    if not _is_modest(inserted):
        return {name: pairs[name] for name in _walk(inserted, buckets)}
    return {inserted[at]: pairs[inserted[at]] for at in permutation(inserted, buckets)}


def encode_java(pairs: Mapping[str, str], buckets: int = REQUEST_BUCKETS) -> bytes:
    """`messageProperties2String` of such a map, as the bytes that are stored."""
    inserted = tuple(pairs)
    if inserted and _is_modest(inserted):
        form, pick = _ordered(inserted, buckets)
        text: str = form % pick(pairs)
        return text.encode("utf-8", "replace")
    return encode(java_order(pairs, buckets)).encode("utf-8", "replace")


@lru_cache(maxsize=PLANS_MAX)
def _ordered(inserted: tuple[str, ...], buckets: int) -> tuple[str, Callable[[Mapping[str, str]], Any]]:
    """How pairs with these names are written, and what takes out their values for it."""
    order = [inserted[at] for at in permutation(inserted, buckets)]
    return "".join(map(_form, order)), itemgetter(*order)


def delete(text: str, name: str) -> str:
    """The string without any pair of this name (`MessageUtils.deleteProperty`); everything else stays as it is."""
    mark = name + NAME_END
    if mark not in text:
        return text
    *pairs, rest = text.split(PAIR_END)
    kept = [pair + PAIR_END for pair in pairs if not pair.startswith(mark)]
    return "".join(kept) + ("" if rest.startswith(mark) else rest)


def find(encoded: bytes, name: bytes) -> bytes | None:
    """The value of one property in stored bytes, without reading the others.  The last one wins, as in `decode`."""
    return find_marked(encoded, mark_of(name))


def mark_of(name: bytes) -> bytes:
    """What `find_marked` looks for."""
    return b"\x02" + name + b"\x01"


def find_marked(encoded: bytes, mark: bytes) -> bytes | None:
    """`find` by what `mark_of` made of the name: for those who look for the same name in many messages."""
    before = len(encoded)
    while True:
        at = encoded.rfind(mark, 0, before)
        if at < 0 and not encoded.startswith(mark[1:]):
            return None
        start = at + len(mark)
        end = encoded.find(b"\x02", start)
        value = encoded[start:] if end < 0 else encoded[start:end]
        if value or at < 0:
            return bytes(value) or None
        before = at + 1  # a pair without a value does not count; what ends before it may begin with its 0x02


def finder(names: Sequence[bytes]) -> Callable[[bytes], tuple[bytes | None, ...]]:
    """What finds the values of these names, as `find` does, in the properties of many messages."""
    marks = [(mark_of(name), len(name) + 2) for name in names]

    def values(encoded: bytes) -> tuple[bytes | None, ...]:
        found: list[bytes | None] = []
        for mark, size in marks:
            at = encoded.rfind(mark)
            if at >= 0:
                start = at + size
                end = encoded.find(b"\x02", start)
                if end > start:
                    found.append(encoded[start:end])
                    continue
            found.append(find_marked(encoded, mark))
        return tuple(found)

    return values


def _is_modest(sent: tuple[str, ...]) -> bool:
    return len(sent) <= PLANNED_NAMES_MAX and sum(map(len, sent)) <= PLANNED_CHARACTERS_MAX


def _walk(pairs: Iterable[str], buckets: int) -> list[str]:
    inserted = list(pairs)
    return inserted if len(inserted) > ORDERED_NAMES_MAX else iteration_order(inserted, buckets)


class _Plan(NamedTuple):
    """For one tuple of client names: how to write the pairs once the broker's own are among them."""

    form: str
    pick: Callable[[dict[str, str]], Any]
    lacks_unique_key: bool
    holds_pop_ck: bool


class Rewriter:
    """Turns the property string of a send into what this broker stores.  One per broker: what it adds is constant."""

    def __init__(self, *, cluster: str, region: str, trace_on: bool) -> None:
        """cluster: brokerClusterName.  region: regionId.  trace_on: traceOn."""
        self._first = {prop.MSG_REGION: region, prop.TRACE_ON: "true" if trace_on else "false"}
        self._cluster = cluster
        self._region, self._trace = region, self._first[prop.TRACE_ON]
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def rewrite(self, text: str | None, make_unique_key: Callable[[], str]) -> tuple[bytes, dict[str, str]]:
        """The bytes to store and the properties in them.  make_unique_key is called when the client set no UNIQ_KEY.

        A hopelessly long string comes back as it is, for the store to refuse, with only the broker's own properties.
        """
        if text and len(text) > HOPELESS_CHARACTERS:
            own = {prop.UNIQ_KEY: make_unique_key(), **self._first, prop.CLUSTER: self._cluster}
            return text.encode("utf-8", "replace"), own
        pairs = text.split("\x02") if text else [""]
        if not pairs[-1]:
            pairs.pop()
        if len(pairs) > PLANNED_NAMES_MAX:
            return self._slowly(text, make_unique_key)
        try:
            values = dict(map(_split, pairs, _NAME_ENDS))
        except ValueError:  # a pair with no or more than one 0x01 in it
            return self._slowly(text, make_unique_key)
        plan = self._plans.get(tuple(values))
        if plan is None or not all(values.values()):
            return self._slowly(text, make_unique_key)
        values["MSG_REGION"] = self._region
        values["TRACE_ON"] = self._trace
        if plan.lacks_unique_key:
            values["UNIQ_KEY"] = make_unique_key()
        if plan.holds_pop_ck:
            del values["POP_CK"]
        values["CLUSTER"] = self._cluster
        return (plan.form % plan.pick(values)).encode(), values

    def _slowly(self, text: str | None, make_unique_key: Callable[[], str]) -> tuple[bytes, dict[str, str]]:
        """The reference's own steps, two maps and all.  Leaves a plan behind for the next string with these names."""
        sent = decode(text or "")
        order = self._stored_order(sent)
        values = {**sent, **self._first, prop.CLUSTER: self._cluster}
        if prop.UNIQ_KEY not in values:
            values[prop.UNIQ_KEY] = make_unique_key()
        self._remember(tuple(sent), order)
        stored = {name: values[name] for name in order}
        return encode(stored).encode("utf-8", "replace"), stored

    def _stored_order(self, sent: Mapping[str, str]) -> list[str]:
        parsed = _walk({**sent, **self._first}, REQUEST_BUCKETS)
        parsed_again = [name for name in parsed if name != prop.POP_CK]
        return _walk(dict.fromkeys([*parsed_again, prop.UNIQ_KEY, prop.CLUSTER]), REQUEST_BUCKETS)

    def _remember(self, sent: tuple[str, ...], order: list[str]) -> None:
        if not _is_modest(sent):
            return
        if len(self._plans) >= PLANS_MAX:  # all at once: those in use are back after one slow turn each
            self._plans = {}
        self._plans[sent] = _Plan(
            form="".join(map(_form, order)),
            pick=itemgetter(*order),
            lacks_unique_key=prop.UNIQ_KEY not in sent,
            holds_pop_ck=prop.POP_CK in sent,
        )


def _form(name: str) -> str:
    return name.replace("%", "%%") + "\x01%s\x02"
