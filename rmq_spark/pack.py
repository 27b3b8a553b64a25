"""What executors need of this package, as one file for `spark-submit --py-files`: `python -m rmq_spark.pack build/rmq.zip`.

The zip holds the packages that read stores and that run jobs, with their data files; Python imports them out of it.  What is
compiled (numpy, pyarrow, msgspec) cannot be imported out of a zip and, like construct, has to be installed where executors run;
the driver of a command needs click, too.
The same files make the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGES: Final = ("rmq_spark", "rmq_columns", "rmq_wire", "rmq_inspect", "rmq_cli", "planted_stores")
"""The last three for the driver alone: `python -m rmq_cli.spark JOB` is a command."""
MODULES: Final = ("pyspark_rocketmq_store",)
HOME: Final = Path(__file__).resolve().parents[1]
"""Where the packages lie: a checkout, or where packages are installed."""
LEFT_OUT: Final = frozenset({".pyc", ".pyo"})
FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)
"""A zip knows none before it."""
_READABLE: Final = 0o644 << 16


def contents(home: Path = HOME) -> Iterator[Path]:
    """The files, relative to where the packages lie, sorted."""
    yield from (Path(f"{name}.py") for name in MODULES)
    for name in PACKAGES:
        for path in sorted((home / name).rglob("*")):
            if path.is_file() and path.suffix not in LEFT_OUT:
                yield path.relative_to(home)


def pack(target: Path, home: Path = HOME) -> int:
    """Write the zip, its directory made where there is none; gives the number of its files.  Raises OSError."""
    if home.is_file():
        raise FileExistsError(f"{home} is such a zip already")
    target.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for path in contents(home):
            entry = zipfile.ZipInfo(path.as_posix(), FIRST_DAY)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, _READABLE
            made.writestr(entry, (home / path).read_bytes())
            count += 1
    return count


def main(words: list[str] | None = None) -> int:
    """Exit status 0, or 2 with a line that says why not."""
    parser = argparse.ArgumentParser("rmq_spark.pack", description="Make the zip for spark-submit --py-files.")
    parser.add_argument("target", type=Path, metavar="ZIP", help="is written anew")
    target: Path = parser.parse_args(words).target
    try:
        count = pack(target)
    except OSError as reason:
        print(f"pack: {reason}", file=sys.stderr)
        return 2
    print(f"{target}: {count} files, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
