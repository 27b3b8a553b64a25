"""`rmq` by somebody who may not read everything, also where the tests are run by root.

Root reads what it likes by two capabilities.  A process that has given them up for good runs the commands one after another.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command import Seen, invoke
from tests.support.rmq import ROOT
from tests.support.talk import PATIENCE_S

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CANNOT = 77
"""Exit status: these rights cannot be given up here."""


def seen_by_somebody_else(commands: Sequence[Sequence[object]], home: Path) -> list[Seen]:
    """What each of these `rmq …` does for a user who is not above the rights of files."""
    asked = json.dumps([[str(word) for word in words] for words in commands])
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(home)],
        input=asked,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    if done.returncode == CANNOT:
        pytest.skip("root cannot give its rights up here")
    assert done.returncode == 0, done.stderr
    return [Seen(*one) for one in json.loads(done.stdout)]


def _give_up() -> None:
    """What root starts gets all capabilities but those that nobody beneath this process may have any more."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if prctl is None or prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            sys.exit(CANNOT)
    os.environ["RIGHTS_GIVEN_UP"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]])


def _main() -> None:
    if os.geteuid() == 0 and "RIGHTS_GIVEN_UP" not in os.environ:
        _give_up()
    home = Path(sys.argv[1])
    json.dump([invoke(*words, home=home) for words in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    _main()
