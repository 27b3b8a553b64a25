"""One server for several worlds: names of topics and groups with the name space before them, `ns%topic`, `%RETRY%ns%group`.

The wire has the long names, the caller sees his own.  System topics and groups belong to all.  Source: `NamespaceUtil`.
"""

from __future__ import annotations

from typing import Final

from rmq_wire import names

SEPARATOR: Final = "%"


def wrap(namespace: str, name: str) -> str:
    """The name on the wire; a name that has the name space already stays.  Source: `wrapNamespace`."""
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _parts(name)
    if bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The caller's name; one of another name space stays.  Source: `withoutNamespace(resource, namespace)`."""
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _parts(name)
    start = namespace + SEPARATOR
    return prefix + bare[len(start) :] if bare.startswith(start) else name


def _parts(name: str) -> tuple[str, str]:
    for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system(name: str) -> bool:
    return names.is_system_topic(name) or names.is_system_group(name)
