"""README's first commands as a newcomer has them: a fresh copy, an environment of its own, each line as it stands."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.requests import pairs, send
from tests.support.rmq import NOT_COPIED, ROOT, environment
from tests.support.talk import Talk

SECONDS_MAX = 300


def commands_of(heading: str) -> list[str]:
    """The indented lines of a section that are commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text[text.index(f"\n## {heading}\n") :]
    return re.findall(r"^    (rmq inspect .*)$", text[: text.index("\n## ", 4)], re.MULTILINE)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_from_make_dev_to_looking_into_its_store(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=NOT_COPIED)
    surroundings = environment(tmp_path)
    del surroundings["PYTHONPATH"]
    path = surroundings["PATH"].split(
        os.pathsep
    )  # without an environment that is active: who has `rmq` is not told how to reach it
    surroundings["PATH"] = os.pathsep.join(place for place in path if not Path(place, "rmq").exists())
    started = subprocess.Popen(
        ["make", "dev", "ARGS=--namesrv-port 0 --broker-port 0"],
        cwd=checkout,
        env=surroundings,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    try:
        assert started.stdout.readline().startswith("setting up .venv, once")
        ready = re.match(r"ready: name server \S+, broker (\S+), ", started.stdout.readline())
        assert ready is not None
        while ": . " not in (line := started.stdout.readline()):
            assert line, "it ends with how to reach rmq"
        with Talk(ready[1]) as talk:
            asked = send("my-topic", properties=pairs(KEYS="order-1", TAGS="TagA", UNIQ_KEY="0" * 32))
            assert talk.ask(asked, b"hello").code == 0
    finally:
        os.killpg(started.pid, signal.SIGINT)
        started.communicate(timeout=SECONDS_MAX)
    shutil.copytree(checkout / ".rmq", checkout / "store")
    lines = commands_of("Looking into a store")
    assert len(lines) == 5
    activate, more = line.partition(": ")[2].strip(), ["rmq inspect export ./.rmq --to all.jsonl", "rmq inspect diff .rmq store"]
    done = subprocess.run(
        ["bash", "-e"],
        input="\n".join([activate, *lines, *more]),
        cwd=checkout,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("hello") >= 2
