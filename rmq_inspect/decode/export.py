"""Messages into a file, a bounded portion at a time: JSON lines, or Parquet when pyarrow is there.

A file appears under its name only when it is whole; until then it ends in `.part`, and an interrupted export takes it away again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from rmq_inspect.decode.log import Unit
from rmq_inspect.decode.records import BodyForm, json_line, record_of, unpacked_body
from rmq_inspect.errors import CannotLook
from rmq_wire.packed_body import INSTALL

ROWS_MAX: Final = 16_384
ROW_GROUP_BYTES_MAX: Final = 32 << 20
"""Of bodies; a row group ends at whichever comes first."""
HINT: Final = f"Parquet needs pyarrow: {INSTALL} in the checkout (JSON lines do without)"


def to_json_lines(units: Iterable[Unit], path: Path, form: BodyForm) -> int:
    """One object a line, as `show --json` prints it; how many.  Raises `CannotLook` when the file is there already."""
    count = 0
    with _new_file(path) as part, part.open("w", encoding="utf-8") as file:
        for count, unit in enumerate(units, 1):  # noqa: B007
            file.write(json_line(record_of(unit, form)) + "\n")
    return count


def to_parquet(units: Iterable[Unit], path: Path) -> int:
    """One row a message, bodies as bytes, unpacked where that is possible; how many.  Raises `CannotLook` without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise CannotLook(HINT) from None
    schema = _schema(pa)
    count = 0
    with _new_file(path) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for rows in _portions(units):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _schema(pa: Any) -> Any:
    text, time = pa.string(), pa.timestamp("ms", tz="UTC")
    fields = {
        "topic": text,
        "queueId": pa.int32(),
        "queueOffset": pa.int64(),
        "commitLogOffset": pa.int64(),
        "storeSize": pa.int32(),
        "offsetMsgId": text,
        "uniqKey": text,
        "keys": pa.list_(text),
        "tags": text,
        "storeTimestamp": time,
        "storeHost": text,
        "bornTimestamp": time,
        "bornHost": text,
        "version": pa.int8(),
        "flag": pa.int32(),
        "sysFlag": pa.int32(),
        "compression": text,
        "transaction": text,
        "innerBatch": pa.bool_(),
        "reconsumeTimes": pa.int32(),
        "preparedTransactionOffset": pa.int64(),
        "bodyCRC": pa.int32(),
        "bodyCRCOk": pa.bool_(),
        "bodySize": pa.int32(),
        "properties": pa.map_(text, text),
        "bodyPackedAs": text,
        "body": pa.binary(),
    }
    return pa.schema(list(fields.items()))


def _portions(units: Iterable[Unit]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for unit in units:
        row = record_of(unit, BodyForm.NONE)
        row["body"], row["bodyPackedAs"] = unpacked_body(unit.message)
        row["properties"] = list(row["properties"].items())
        rows.append(row)
        size += len(row["body"])
        if len(rows) >= ROWS_MAX or size >= ROW_GROUP_BYTES_MAX:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` at the end."""
    if path.exists():
        raise CannotLook(f"{path}: is there already; an export does not overwrite")
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    except OSError as reason:
        _take_away(part)
        raise CannotLook(f"{path}: {reason.strerror or reason}") from reason
    except BaseException:
        _take_away(part)
        raise


def _take_away(part: Path) -> None:
    with contextlib.suppress(OSError):
        part.unlink()
