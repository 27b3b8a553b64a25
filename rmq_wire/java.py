"""The two habits of the JVM that reach the wire and the files: `String.hashCode`, and the order in which a `HashMap` is walked.

Hashes decide tag codes and index slots, so they must be right.  The order of a map decides only where bytes stand inside property
strings and extFields; it is reproduced so that our bytes equal Java's.  A walk goes bucket by bucket, in each bucket in the
order of insertion (growing splits a bucket without reordering it), hence a stable sort by bucket in the final table.  A
`ConcurrentHashMap`, in which the tables of configuration files are kept, does reorder.  Left out: the ninth name in one bucket
makes Java turn the bucket into a tree and move its root to the front; nobody but an attacker sends nine names with one bucket,
and no reader cares about the order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from itertools import groupby
from math import isfinite, isnan
from typing import Final

_CHUNK: Final = 64
"""UTF-16 units hashed in one C call; longer texts are hashed chunk by chunk."""
_WORD: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_SHIFT: Final = tuple(pow(31, n, 1 << 32) for n in range(_CHUNK + 1))
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
"""What `int(…, 31)` reads as 0 to 30."""
_HIGH: Final = bytes(_DIGITS[unit // 31] for unit in range(256))
_LOW: Final = bytes(_DIGITS[unit % 31] for unit in range(256))
"""unit = 31 * high + low: two numbers of base 31 hold any ASCII text, so that C evaluates the polynomial, 4 times faster."""
_LONG_SIGN: Final = 1 << 63
_INT_DIGITS_MAX: Final = 10
_LONG_DIGITS_MAX: Final = 19
_TREE_CHAIN: Final = 8
"""`HashMap.TREEIFY_THRESHOLD`: a chain as long as this does not take another name quietly."""
_TREE_TABLE: Final = 64
"""`HashMap.MIN_TREEIFY_CAPACITY`: a smaller table grows instead of making a tree."""

Placed = tuple[int, str, int]
"""Of a name in a map: arrival, name, and the hash whose lowest bits are the bucket."""


def string_hash(text: str) -> int:
    """`String.hashCode`: h = 31 h + unit over UTF-16 units, as a signed 32-bit number."""
    return (word_of_suffix(0, text) ^ _SIGN) - _SIGN


def hash_suffix(prefix_hash: int, text: str) -> int:
    """The hash of prefix + text from the hash of the prefix: what makes hashing many keys with one beginning cheap."""
    return (word_of_suffix(prefix_hash, text) ^ _SIGN) - _SIGN


def word_of_suffix(value: int, text: str) -> int:
    """`hash_suffix` as 32 bits without a sign."""
    if not text.isascii():
        for unit in array("H", text.encode("utf-16-le" if _LITTLE else "utf-16-be", "surrogatepass")):
            value = (31 * value + unit) & _WORD
        return value & _WORD
    units = text.encode()
    if 0 < (count := len(units)) <= _CHUNK:
        return (value * _SHIFT[count] + 31 * int(units.translate(_HIGH), 31) + int(units.translate(_LOW), 31)) & _WORD
    while units:
        piece = units[:_CHUNK]
        value = (value * _SHIFT[len(piece)] + 31 * int(piece.translate(_HIGH), 31) + int(piece.translate(_LOW), 31)) & _WORD
        units = units[_CHUNK:]
    return value & _WORD


_LITTLE: Final = array("H", [1]).tobytes()[0] == 1


def spread_of(text: str) -> int:
    """`HashMap.hash`: the high half folded into the low one, since buckets look at low bits only."""
    value = word_of_suffix(0, text)
    return value ^ (value >> 16)


def iteration_order(names: Iterable[str], buckets: int = 16) -> list[str]:
    """Distinct names, given in the order of insertion, in the order in which `new HashMap<>(buckets)` is walked."""
    listed = list(names)
    return walked(listed, [spread_of(name) for name in listed], buckets)


def walked(names: Sequence[str], spread: Sequence[int], buckets: int) -> list[str]:
    """The same of names whose `spread_of` are there."""
    mask = _table_size(spread, buckets) - 1
    buckets_of = [value & mask for value in spread]
    return [names[at] for at in sorted(range(len(names)), key=buckets_of.__getitem__)]


def concurrent_buckets(capacity: int) -> int:
    """How many buckets `new ConcurrentHashMap<>(capacity)` has."""
    return 1 << (capacity + (capacity >> 1)).bit_length()


def concurrent_order(names: Iterable[str], buckets: int = 16) -> list[str]:
    """`iteration_order` of a `ConcurrentHashMap` that began with so many buckets; it grows one name before a `HashMap` does."""
    listed: list[Placed] = [(at, name, spread_of(name)) for at, name in enumerate(names)]
    there: list[Placed] = []
    while True:
        full = buckets * 3 // 4
        there = sorted([*there, *listed[len(there) : full]], key=partial(_bucket_of, buckets - 1))
        if len(there) < full:
            return [name for _, name, _ in there]
        there = list(regrown(there, buckets, full))
        buckets *= 2


def regrown(places: Iterable[Placed], buckets: int, arrivals: int) -> Iterator[Placed]:
    """Chains of a `ConcurrentHashMap`, whole and side by side, in the order in which they are to part for twice as many buckets.

    Its `transfer` leaves the end of a chain that goes one way as it is, and puts one by one what came before in front of what is
    there.  Who comes to stand elsewhere has the arrival of the one who stood there.  arrivals: of those that were there then.
    """
    for _, group in groupby(places, partial(_bucket_of, buckets - 1)):
        chain = list(group)
        if len(chain) > 2:  # of two, one at most is turned round
            old = [one for one in chain if one[0] <= arrivals]
            end = len(old) - 1 if len(old) <= _TREE_CHAIN else 0  # of a tree nobody is turned round
            while end > 0 and not (old[end - 1][2] ^ old[end][2]) & buckets:
                end -= 1
            if end > 1:
                chain[:end] = [(old[at][0], *old[end - 1 - at][1:]) for at in range(end)]
        yield from chain


def _bucket_of(mask: int, one: Placed) -> int:
    return one[2] & mask


def long_order(numbers: Iterable[int], buckets: int = 16) -> list[int]:
    """`iteration_order` of Java longs (`Long.hashCode`): offsets of a batch, 48 of them at most."""
    listed = list(numbers)
    hashes = [(number ^ number >> 32) & _WORD for number in listed]
    mask = table_size(len(listed), buckets) - 1
    spread = [(value ^ value >> 16) & mask for value in hashes]
    return [listed[at] for at in sorted(range(len(listed)), key=spread.__getitem__)]


@lru_cache(maxsize=4096)
def permutation(names: tuple[str, ...], buckets: int = 16) -> tuple[int, ...]:
    """`iteration_order` as indices into names, remembered for the sets of names seen last.  Keep it to short tuples."""
    place = {name: index for index, name in enumerate(names)}
    return tuple(place[name] for name in iteration_order(names, buckets))


def table_size(count: int, buckets: int) -> int:
    """How many buckets a table that began with this many (a power of two) has when it holds count names."""
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def _table_size(spread: Sequence[int], buckets: int) -> int:
    if buckets >= _TREE_TABLE or len(spread) <= _TREE_CHAIN:
        return table_size(len(spread), buckets)
    for count, value in enumerate(spread):  # a small table also grows when one chain gets too long
        if buckets >= _TREE_TABLE:  # after some 48 names, however many there are
            return table_size(len(spread), buckets)
        chain = sum((other ^ value) & (buckets - 1) == 0 for other in spread[:count])
        if chain >= _TREE_CHAIN:
            buckets *= 2
        buckets = table_size(count + 1, buckets)
    return buckets


def parse_int(text: str) -> int | None:
    """`Integer.parseInt`, of ASCII digits; None where Java throws NumberFormatException."""
    return _parse(text, _INT_DIGITS_MAX, _SIGN)


def parse_long(text: str) -> int | None:
    """`Long.parseLong`, the same way."""
    return _parse(text, _LONG_DIGITS_MAX, _LONG_SIGN)


def _parse(text: str, digits_max: int, sign: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > digits_max:
        return None
    number = int(digits.lstrip("0") or "0") * (-1 if text[0] == "-" else 1)
    return number if -sign <= number < sign else None


def long_of(number: int) -> int:
    """What a Java `long` holds after arithmetic that gave this number: its low 64 bits, signed."""
    return (number + _LONG_SIGN & 2 * _LONG_SIGN - 1) - _LONG_SIGN


def double_text(value: float) -> str:
    """`Double.toString`: plain from 0.001 up to 10 million, else digits with an exponent; at least one digit behind the point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    power = len(text) + int(exponent) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:].rstrip('0') or '0'}E{power}"
