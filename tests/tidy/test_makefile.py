"""What the Makefile's targets say and hand down to what they start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import OurBroker

ROOT = Path(__file__).parents[2]
VARIABLE = "PYTHONDONTWRITEBYTECODE"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_children_may_keep_compiled_modules() -> None:
    """Each start of a server would compile everything anew."""
    rule = f'--eval=shown: ; @echo "[$${VARIABLE}]"'
    done = subprocess.run(
        ["make", "--no-print-directory", rule, "shown"],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_measured_broker_is_like_an_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    broker = OurBroker(tmp_path, "127.0.0.1:1", name="b", properties={})
    code = "import sys; sys.exit(sys.dont_write_bytecode)"
    environment = {**os.environ, **broker.environment()}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
