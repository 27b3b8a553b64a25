"""Which topics stores have, and what is said of one that none of them has: a typing error must not look like "nothing found".

A store names its topics by the directories of its queues, in topics.json, and in the positions of groups (a topic that was
deleted has those).  A log alone names none: whoever can look through it asks for `Missing.unnamed`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import Tree, joined, local_path
from rmq_columns.read.options import Options
from rmq_columns.read.stores import Store, list_stores
from rmq_columns.shown import printable
from rmq_wire.implied.topics import is_users_topic
from rmq_wire.store_names import BATCH_QUEUES, CONFIG, INDEX, QUEUES

NEAR_MAX: Final = 3
LISTED_MAX: Final = 5


def topics_of(store: Store, tree: Tree) -> frozenset[str] | None:
    """By every name that the store has for one; None where nothing there says.  Raises `NotPermitted`."""
    if not store.root:
        return None
    names = store.queue_topics(tree)
    configured = _table(store, tree, "topics.json", "topicConfigTable")
    if not names and configured is None:
        return None
    positions = _table(store, tree, "consumerOffset.json", "offsetTable") or ()
    return frozenset(names.union(configured or (), (place.partition("@")[0] for place in positions)))


def _table(store: Store, tree: Tree, name: str, table: str) -> Collection[str] | None:
    try:
        return store.config_table(tree, name, table)
    except CannotRead:
        return None


def near(name: str, names: Iterable[str]) -> list[str]:
    """Those most like it, the best first, small and large letters being equal."""
    by_lower = {one.lower(): one for one in names}
    return [by_lower[one] for one in difflib.get_close_matches(name.lower(), by_lower, NEAR_MAX)]


def no_such_topic(asked: str, known: Iterable[str], where: str) -> str:
    """The line about it."""
    names = sorted(known)
    if close := near(asked, names):
        hint = f"did you mean {' or '.join(map(printable, close))}?"
    elif plain := [one for one in names if is_users_topic(one)]:
        more = f" and {len(plain) - LISTED_MAX} more" if len(plain) > LISTED_MAX else ""
        hint = f"there are {', '.join(map(printable, plain[:LISTED_MAX]))}{more}"
    else:
        hint = "it names none"
    return f"no topic {printable(asked)} in {where}: {hint}"


class Missing(NamedTuple):
    """Topics that were asked for and that no store names."""

    topics: tuple[str, ...]
    known: frozenset[str]
    """Those that stores name."""
    paths: tuple[str, ...]
    unnamed: tuple[str, ...] = ()
    """Paths of this machine where nothing names topics: they may be in the log."""
    is_sure: bool = True
    """That every store has named its topics."""

    @property
    def line(self) -> str:
        """What is said of the first."""
        where = self.paths[0] if len(self.paths) == 1 else f"any of {', '.join(self.paths)}"
        return no_such_topic(self.topics[0], self.known, where)

    def found(self, names: Collection[str]) -> Missing | None:
        """When these are in the logs of `unnamed`."""
        left = tuple(one for one in self.topics if one not in names)
        return self._replace(topics=left, known=self.known.union(names)) if left else None


def missing_topic(options: Options, asked: Collection[str] = ()) -> Missing | None:
    """Before anything heavy starts: whether the paths of this machine are stores, may be read, and have the topics asked for.

    What lies elsewhere is not looked at: each look is a round trip.  Raises `BadOption`, `CannotRead`, `NotPermitted`.
    """
    known: set[str] = set()
    unnamed: list[str] = []
    is_sure = True
    for path in options.paths:
        if local_path(path) is None:
            is_sure = False
            continue
        own = replace(options, paths=(path,), broker_names=())  # each by itself: a store may be compared with its copy
        for store in list_stores(own):
            tree = store.tree(own)
            store.log_files(tree)
            for name in (QUEUES, BATCH_QUEUES, CONFIG, INDEX) if store.root else ():
                tree.entries(joined(store.root, name))  # what may not be listed would look empty
            names = topics_of(store, tree) if asked else None
            if names is None and path not in unnamed:
                unnamed.append(path)
            known.update(names or ())
    missing = tuple(sorted(set(asked) - known))
    return Missing(missing, frozenset(known), options.paths, tuple(unnamed), is_sure and not unnamed) if missing else None
