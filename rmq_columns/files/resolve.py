"""In which file system a path lies."""

from __future__ import annotations

from typing import Any

from rmq_columns.files.filesystem import LocalTree, Tree, local_path


def resolve(path: str, filesystem: Any = None) -> tuple[Tree, str]:
    """The tree in which a path lies, and what the path is called there.

    filesystem: of pyarrow or fsspec; without one the path is local, or a URI (`s3://bucket/store`, `memory://store`).
    Raises `CannotRead` for a URI that nobody here understands.
    """
    from rmq_columns.files import remote

    if filesystem is not None:
        return remote.tree_of(filesystem, path)
    own = local_path(path)
    return remote.from_uri(path) if own is None else (LocalTree(), own.rstrip("/") or "/")
