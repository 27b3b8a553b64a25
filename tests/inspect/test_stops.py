"""SIGTERM ends a look as Ctrl-C does: nothing of it is left, no process and no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rmq_cli.stopping import stoppable
from rmq_inspect.decode import export
from rmq_inspect.verify.workers import each
from tests.support.command import look
from tests.support.damaged_store import fill
from tests.support.rmq import ROOT
from tests.support.stores import golden_store
from tests.support.talk import PATIENCE_S

STUCK = """
import os, signal, sys
from rmq_cli.main import main
from rmq_inspect.verify import verify

def stuck(*_):
    os.write(1, b"%d\\n" % os.getpid())  # at once: another one writes, too
    signal.pause()

verify.check_log, verify.POOL_BYTES_MIN = stuck, 0
main(["inspect", "verify", sys.argv[1], "--workers", "2"])
"""


@pytest.fixture
def survivor() -> Iterator[None]:
    """A SIGTERM that nobody heeds does not end the tests."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_no_worker_is_left(tmp_path: Path, number: signal.Signals) -> None:
    """Each of them has our end of the pipe, too: that it is at its end says that none is left."""
    fill(tmp_path)
    line = [sys.executable, "-c", STUCK, str(tmp_path)]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as child:
        assert child.stdout is not None
        try:
            workers = {int(child.stdout.readline()) for _ in range(2)}
            assert len(workers - {child.pid}) == 2
            child.send_signal(number)
            out, said = child.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert (child.returncode, out, said) == (128 + number, "", "rmq: interrupted\n")


def _ends_by_sigterm(_item: int) -> bool:
    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_workers_do_not_have_the_handler_of_who_made_them() -> None:
    with stoppable():
        assert [answer for _, answer in each(_ends_by_sigterm, [0, 1], (), 2)] == [True, True]


@pytest.mark.usefixtures("survivor")
def test_an_export_that_is_ended_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_store(tmp_path / "s")
    usual = export.record_of
    parts: list[list[str]] = []

    def ended(*arguments: object) -> object:
        parts.append(sorted(path.name for path in tmp_path.iterdir()))
        os.kill(os.getpid(), signal.SIGTERM)
        return usual(*arguments)  # type: ignore[arg-type]

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(export, "record_of", ended)
    seen = look("export", golden, "--to", tmp_path / "x.jsonl")
    assert (seen.status, seen.err.splitlines()[-1]) == (128 + signal.SIGTERM, "rmq: interrupted")
    assert parts == [["s", "x.jsonl.part"]]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert signal.getsignal(signal.SIGTERM) is before
