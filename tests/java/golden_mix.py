"""Makes the golden store `store-5.5.0-mix` in `conformance/golden`: the mix of `message_mix`, written by the real broker alone.

    python -m tests.java.golden_mix

Two starts, the first with IPv4 addresses and the second with IPv6 ones; log, queues and index roll several times.  Files as in
`golden_store`: without the zeros at their end, sizes in sizes.json; shape.json holds what the broker was set to for its files.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.java.golden import GOLDEN
from tests.java.golden_store import _keep
from tests.java.store_course import Course, Plan
from tests.support.java import REFERENCE
from tests.support.reference import JavaNameServer

NAME = f"store-{REFERENCE}-mix"
PLAN = Plan("mix", 16 << 10, 2_000, 2, queue_file_bytes=200, index_num=80)


def make_store() -> None:
    """Fill and keep."""
    target = GOLDEN / NAME
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch, JavaNameServer(Path(scratch) / "namesrv") as names:
        course = Course(PLAN, Path(scratch) / "mix", names.address)
        try:
            for host in ("127.0.0.1", "::1"):
                course.use_host(host)
                course.turn(course.java)
        finally:
            course.end()
        _keep(course.store, target)
        shape = {**PLAN.shape._asdict(), "deleted": sorted(course.mix.deleted)}
        (target / "shape.json").write_text(json.dumps(shape, indent=1) + "\n")


if __name__ == "__main__":
    make_store()
