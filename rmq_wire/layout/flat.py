"""Derive precompiled `struct.Struct`s from declarations whose fields are all fixed in size and big-endian.

construct reads a message unit in 21 µs; the derived struct does it in a fraction of one.  Because it is derived, a
hand-written walk owns no offset of its own, and what cannot be derived faithfully (little-endian, variable or conditional
fields) is refused.  All structs of the product are made here (a test looks): of a whole layout, of one field, of some fields
of many records in a row, and of the lengths that stand before variable fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Packed
from struct import calcsize
from typing import Any, NamedTuple

from construct import Bytes, Construct, FormatField, Prefixed, Renamed, Struct

__all__ = ["Flat", "Packed", "flat", "length_of", "lengths_of"]


class Flat(NamedTuple):
    """A layout without construct: what packs it, the names of its fields in order, and where each of them begins."""

    packed: Packed
    names: tuple[str, ...]
    at: dict[str, int]
    codes: tuple[str, ...]
    """What `struct` calls each field."""

    @property
    def size(self) -> int:
        """Bytes of the whole layout."""
        return self.packed.size

    def field(self, name: str) -> Packed:
        """One field alone."""
        return Packed(">" + self.codes[self.names.index(name)])

    def run(self, *names: str) -> Packed:
        """Fields that stand side by side.  Raises ValueError for others."""
        first = self.names.index(names[0])
        if self.names[first : first + len(names)] != names:
            raise ValueError(f"{names} do not follow each other in {self.names}")
        return Packed(">" + "".join(self.codes[first : first + len(names)]))

    def rows(self, count: int, *names: str) -> Packed:
        """So many records in a row, of each all fields, or only those named; the rest is skipped.

        Raises TypeError unless the names are in the layout's order: in that order the values come.
        """
        if list(names) != [name for name in self.names if name in names]:
            raise TypeError(f"{names} are not fields in the order of {self.names}")
        one = "".join(
            code if not names or name in names else f"{calcsize(f'>{code}')}x"
            for name, code in zip(self.names, self.codes, strict=True)
        )
        return Packed(">" + one * count)

    def and_behind(self, numbers: Sequence[str], skipped: int, length: Packed, taken: int) -> Packed:
        """Of each of these numbers its lowest byte, 0 to 255; the last field; and, when so many bytes behind the layout are
        skipped, a length, and so many bytes more.

        The numbers are in the layout's order, and none is the last field.
        """
        code, reached = "", 0
        for name in numbers:
            lowest = self.at[name] + self.field(name).size - 1
            code += f"{lowest - reached}xB"
            reached = lowest + 1
        last = self.names[-1]
        return Packed(f">{code}{self.at[last] - reached}x{self.codes[-1]}{skipped}x{length.format.removeprefix('>')}{taken}s")


def flat(layout: Struct) -> Flat:
    """Raises TypeError for a field that is not a fixed big-endian number or a fixed run of bytes."""
    codes = tuple(_code(field) for field in layout.subcons)
    names = tuple(field.name for field in layout.subcons)
    starts = [calcsize(">" + "".join(codes[:i])) for i in range(len(codes))]
    packed = Packed(">" + "".join(codes))
    if packed.size != layout.sizeof():
        raise TypeError(f"derived {packed.size} bytes, declared {layout.sizeof()}")
    return Flat(packed, names, dict(zip(names, starts, strict=True)), codes)


def length_of(field: Any, name: str | None = None) -> Packed:
    """The length before a variable field: of this one, or of the one with this name in a layout.

    Raises TypeError for a field without a length.
    """
    if name is not None:
        [field] = [one for one in field.subcons if one.name == name]
    match _bare(field):
        case Prefixed(lengthfield=length):
            return Packed(">" + _code(length))
    raise TypeError(f"no length before {field!r}")


def lengths_of(layout: Struct, *sizes: int) -> Packed:
    """All lengths of a layout of variable fields, when each field but the last is as long as `sizes` says."""
    codes = [length_of(field).format.removeprefix(">") for field in layout.subcons]
    return Packed(">" + "".join(f"{code}{size}x" for code, size in zip(codes, (*sizes, 0), strict=True)))


def _bare(field: Construct[Any, Any]) -> Construct[Any, Any]:
    while isinstance(field, Renamed):
        field = field.subcon
    return field


def _code(field: Construct[Any, Any]) -> str:
    match field := _bare(field):
        case FormatField(fmtstr=fmt) if fmt[0] == ">" and type(field) is FormatField:
            return str(fmt[1:])
        case Bytes(length=int(count)):
            return f"{count}s"
    raise TypeError(f"not a fixed big-endian field: {field!r}")
