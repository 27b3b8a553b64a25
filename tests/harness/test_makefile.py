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


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_first_dev_says_that_it_is_setting_up(tmp_path: Path) -> None:
    """And for how long, before it does; a second one does not.  In the place of Python stands one that is done at once."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    rmq = "#!/bin/sh\\necho ready\\n"
    made = f"#!/bin/sh\nmkdir -p .venv/bin; printf '{rmq}' > .venv/bin/rmq; cp FAKE .venv/bin/python; chmod +x .venv/bin/*\n"
    fake = tmp_path / "python"
    fake.write_text(made.replace("FAKE", str(fake)))
    fake.chmod(0o755)
    said = []
    for _ in range(2):
        done = subprocess.run(
            ["make", "--no-print-directory", "dev", f"PYTHON={fake}"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.splitlines())
    assert said == [["setting up .venv, once: half a minute, or what the network takes", "ready"], ["ready"]]
