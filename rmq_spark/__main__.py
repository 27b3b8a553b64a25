"""`python -m rmq_spark JOB …`, the same words as `rmq spark JOB …`; `main` is what a script for `spark-submit` calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> None:
    """Run a job.  words: those behind `rmq spark`; the process's own by default.  Ends with `SystemExit` and its status."""
    from rmq_cli.main import main as rmq

    rmq(["spark", *(sys.argv[1:] if words is None else words)])


if __name__ == "__main__":
    main()
