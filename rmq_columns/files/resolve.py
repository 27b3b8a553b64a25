"""In which file system a path lies."""

from __future__ import annotations

from typing import Any

from rmq_columns.files.counted import counted
from rmq_columns.files.filesystem import LocalTree, Tree, local_path


def resolve(path: str, filesystem: Any = None) -> tuple[Tree, str]:
    """The tree in which a path lies, and what the path is called there; its answers are counted where somebody does (`counting`).

    filesystem: of pyarrow or fsspec; without one the path is local, or a URI (`s3://bucket/store`, `memory://store`).
    Raises `CannotRead` for a URI that nobody here understands.
    """
    from rmq_columns.files import remote

    if filesystem is not None:
        tree, name = remote.tree_of(filesystem, path)
    elif (own := local_path(path)) is None:
        tree, name = remote.from_uri(path)
    else:
        tree, name = LocalTree(), own.rstrip("/") or "/"
    return counted(tree), name
