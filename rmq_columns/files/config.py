"""One configuration file of a broker, in Java's dialect of JSON, in any file system."""

from __future__ import annotations

from typing import Any, Final

from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import File

CONFIG_BYTES_MAX: Final = 256 << 20
"""A larger configuration is not parsed: consumer offsets of a million queues take some 50 MB."""


def config_bytes(file: File, name: str) -> bytes:
    """All of it.  name: as errors call it.  Raises `CannotRead` where there is too much of it, `CannotLook`."""
    size = file.size()
    if size > CONFIG_BYTES_MAX:
        raise CannotRead(name, -1, f"{size} bytes are no configuration")
    return file.read(0, size)


def config_value(data: bytes, name: str) -> Any:
    """Its value.  name: as errors call it.  Raises `CannotRead` for what is not the JSON of a broker."""
    from rmq_wire.errors import WireError
    from rmq_wire.fastjson import loads

    if not data.strip():
        raise CannotRead(name, -1, "empty")
    try:
        return loads(data)
    except (WireError, ValueError, RecursionError) as reason:
        raise CannotRead(name, -1, f"not the JSON of a broker: {reason}") from reason
