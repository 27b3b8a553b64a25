"""`{"$ref": "…"}`: how fastjson 1 (RocketMQ up to 5.3) writes an object a second time.

A reference becomes the very object that it names.  What would contain itself, or would be unreasonably large when written out, is
refused: whoever converts the result walks every occurrence.
"""

from __future__ import annotations

import re
from typing import Any, Final

from rmq_wire.errors import BadBody

OCCURRENCES_MAX: Final = 1_000_000
"""Values of the resolved tree, shared ones counted as often as they occur.  A real body has some thousand."""
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(-?[0-9]{1,9})\]")


def resolve(root: Any) -> Any:
    """The tree with its references replaced.  Raises `BadBody` for one that leads nowhere or back to itself."""
    try:
        return _Resolver(root).resolved
    except RecursionError:
        raise BadBody("JSON: references that lead to each other") from None


class _Resolver:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()
        self.resolved, _ = self._walk(root, [])

    def _walk(self, value: Any, above: list[Any]) -> tuple[Any, int]:
        """The value with everything below it resolved in place, and how many values that are."""
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str):
            return self._walk(*self._target(value["$ref"], above))
        if not isinstance(value, dict | list):
            return value, 1
        if id(value) in self._open:
            raise BadBody("JSON: an object that contains itself")
        if id(value) not in self._sizes:
            self._open.add(id(value))
            size = 1
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                value[key], below = self._walk(item, [*above, value])
                size += below
            self._open.discard(id(value))
            if size > OCCURRENCES_MAX:
                raise BadBody("JSON: references to more than can be written out")
            self._sizes[id(value)] = size
        return value, self._sizes[id(value)]

    def _target(self, path: str, above: list[Any]) -> tuple[Any, list[Any]]:
        """What a path names, and the containers above it.  `@`: this object; `..`: the one above; `$…`: from the root."""
        if path == "@" and above:
            return above[-1], above[:-1]
        if path == ".." and len(above) > 1:
            return above[-2], above[:-2]
        if not path.startswith("$") or "".join(step[0] for step in _STEP.finditer(path)) != path[1:]:
            raise BadBody(f"JSON: reference {path[:64]!r}")
        found, containers = self._root, []
        for step in _STEP.finditer(path):
            containers.append(found)
            try:
                found = found[int(step[2])] if isinstance(found, list) else found[step[1]]
            except (KeyError, IndexError, TypeError):
                raise BadBody(f"JSON: reference {path[:64]!r} leads nowhere") from None
        return found, containers
