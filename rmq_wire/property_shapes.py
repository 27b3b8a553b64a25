"""The property strings of sends, rewritten by shape: what one producer sends differs from message to message in the values only.

A shape is a tuple of names.  For one that is seen often a pattern is compiled that takes the values out of the string, and a
format that puts them where the general way would have (`Rewriter`, and for a half message what follows it): half its cost.  The
pattern matches only what has exactly these names once each and no stray separator; all else, and every string with a name that
makes a send more than an append, is not for here.  Compiling costs as much as a hundred sends, so a shape has to be seen some
times first, and few are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from rmq_wire import property_names as prop
from rmq_wire.properties import NAME_END, PAIR_END

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
_ADDED: Final = "\ue000+{}\ue001"
"""And for an added one."""
_VALUE: Final = "[^\x01\x02]++"
PICKED: Final = (prop.UNIQ_KEY, prop.KEYS, prop.TAGS, prop.WAIT)
"""What an ordinary send asks for."""


class _Shape:
    """`match`: of a compiled pattern, text -> match or None.  `picked`: groups.  `order`: groups whose values go into the form.

    `form`: None when the string is stored as it is.
    """

    __slots__ = ("added", "filled", "form", "match", "order", "picked")

    def __init__(self, match: Any, form: str | None, order: tuple[int, ...], picked: tuple[int, ...]) -> None:
        self.match = match
        self.form = self.filled = form
        self.order = order
        self.picked = picked
        self.added: tuple[str, ...] = ()
        """Values that `filled` has in their places: those of the last string, and mostly of the next."""

    def fill(self, added: tuple[str, ...]) -> str:
        """The form with these values in it."""
        assert self.form is not None
        form = self.form
        for number, value in enumerate(added):
            form = form.replace(_ADDED.format(number), value.replace("%", "%%"))
        self.added, self.filled = added, form
        return form


class Shapes:
    """The shapes of one broker, for one kind of messages.

    `store(text, *added)`: what the general way makes of a string, with the added values in it; the names alone may decide where
    it puts what.  `special`: names with which a string is not for here.  `picked`: properties that `rewrite` gives beside what is
    stored.
    """

    def __init__(
        self, store: Callable[..., bytes], special: frozenset[str], picked: tuple[str, ...] = PICKED, added: int = 0
    ) -> None:
        self._store = store
        self._special = special
        self._picked = picked
        self._added = tuple([_ADDED.format(number) for number in range(added)])
        self._shapes: list[_Shape] = []
        self._sighted: dict[tuple[str, ...], int] = {}

    def rewrite(self, text: str | None, added: tuple[str, ...] = ()) -> tuple[Any, ...] | None:
        """The string as it is stored (bytes), and the values (str) of the picked properties, empty for one that is not there.

        None when the general way must be taken.
        """
        if not text:
            return None
        for shape in self._shapes:
            found = shape.match(text)
            if found is not None:
                if shape is not self._shapes[0]:
                    self._shapes.remove(shape)
                    self._shapes.insert(0, shape)
                group = found.group
                form = shape.filled
                if form is None:
                    encoded = text.encode()
                else:
                    if added != shape.added:
                        form = shape.fill(added)
                    encoded = (form % group(*shape.order)).encode()
                picked: tuple[str, ...] = group(*shape.picked)
                return (encoded,) + picked  # noqa: RUF005 (a star makes a list first)
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
        stored = self._store(marked, *self._added).decode()
        order = tuple(int(number) for number in _MARKS.findall(stored))
        kept = stored == marked
        pattern = ""
        groups: dict[str, int] = {}
        for name in sent:
            if not kept or name in self._picked:
                groups[name] = len(groups) + 1
                pattern += f"{re.escape(name)}\x01({_VALUE})\x02"
            else:
                pattern += f"{re.escape(name)}\x01{_VALUE}\x02"
        for name in self._picked:
            if name not in groups:
                groups[name] = len(groups) + 1
                pattern += "()"
        return _Shape(
            match=re.compile(pattern + r"\Z").match,
            form=None if kept else _MARKS.sub("%s", stored.replace("%", "%%")),
            order=order,
            picked=tuple([groups[name] for name in self._picked]),
        )
