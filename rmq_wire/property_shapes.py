"""The property strings of sends, rewritten by shape: what one producer sends differs from message to message in the values only.

A shape is a tuple of names.  For one that is seen often a pattern is compiled that takes the values out of the string, and a
format that puts them where `Rewriter` would have: half the cost of the general way.  The pattern matches only what has exactly
these names once each and no stray separator; all else, and every string with a name that makes a send more than an append, is
not for here.  Compiling costs as much as a hundred sends, so a shape has to be seen some times first, and few are kept.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from rmq_wire import property_names as prop
from rmq_wire.properties import NAME_END, PAIR_END, Rewriter

SHAPES_MAX: Final = 8
"""Tried one after another, last used first; a broker has few kinds of busy producers at a time."""
SIGHTINGS: Final = 16
"""Before a shape is compiled, so that ever new names cost a sender more than us."""
NEVER: Final = -(1 << 30)
"""As a count of sightings: it will not be compiled before it is forgotten."""
CANDIDATES_MAX: Final = 256
NAMES_MAX: Final = 32
_MARK: Final = "\ue000{}\ue001"
"""Stands for a value while a shape is compiled: characters for private use."""
_MARKS: Final = re.compile("\ue000(\\d+)\ue001")
_VALUE: Final = "([^\x01\x02]+)"
_PICKED: Final = (prop.UNIQ_KEY, prop.KEYS, prop.TAGS, prop.WAIT)


Plain = tuple[bytes, str, str, str, str]
"""What a send stores, and its UNIQ_KEY, KEYS, TAGS and WAIT; empty for one that is not there."""


class _Shape(NamedTuple):
    match: Any
    """Of a compiled pattern: text -> match or None."""
    form: str
    order: tuple[int, ...]
    picked: tuple[int, ...]


class Shapes:
    """The shapes of one broker.  `special`: names with which a string is not for here."""

    def __init__(self, rewriter: Rewriter, special: frozenset[str]) -> None:
        self._rewriter = rewriter
        self._special = special
        self._shapes: list[_Shape] = []
        self._sighted: dict[tuple[str, ...], int] = {}

    def rewrite(self, text: str | None) -> Plain | None:
        """The string as it is stored, or None when the general way must be taken."""
        if not text:
            return None
        for shape in self._shapes:
            found = shape.match(text)
            if found is not None:
                if shape is not self._shapes[0]:
                    self._shapes.remove(shape)
                    self._shapes.insert(0, shape)
                group = found.group
                return (shape.form % group(*shape.order)).encode(), *group(*shape.picked)
        self._sight(text)
        return None

    def _sight(self, text: str) -> None:
        pairs = text.split(PAIR_END)
        sent = tuple([pair.partition(NAME_END)[0] for pair in pairs[:-1]])
        if len(sent) > NAMES_MAX or pairs[-1]:
            return
        times = self._sighted.get(sent, 0) + 1
        if times < SIGHTINGS:
            if len(self._sighted) >= CANDIDATES_MAX:
                self._sighted.clear()
            self._sighted[sent] = times
            return
        self._sighted.pop(sent, None)
        if not self._is_plain(sent):
            self._sighted[sent] = NEVER
            return
        self._shapes.insert(0, self._compile(sent))
        del self._shapes[SHAPES_MAX:]

    def _is_plain(self, sent: tuple[str, ...]) -> bool:
        distinct = set(sent)
        if len(distinct) < len(sent) or "" in distinct or prop.UNIQ_KEY not in distinct:
            return False
        return self._special.isdisjoint(distinct) and not any(_MARK[0] in name for name in sent)

    def _compile(self, sent: tuple[str, ...]) -> _Shape:
        marked = "".join([f"{name}\x01{_MARK.format(at + 1)}\x02" for at, name in enumerate(sent)])
        stored = self._rewriter.rewrite(marked, str)[0].decode()
        pattern = "".join([f"{re.escape(name)}\x01{_VALUE}\x02" for name in sent])
        picked = []
        absent = len(sent)
        for name in _PICKED:
            if name in sent:
                picked.append(sent.index(name) + 1)
            else:
                pattern += "()"
                absent += 1
                picked.append(absent)
        return _Shape(
            match=re.compile(pattern + r"\Z").match,
            form=_MARKS.sub("%s", stored.replace("%", "%%")),
            order=tuple(int(number) for number in _MARKS.findall(stored)),
            picked=tuple(picked),
        )
