"""Subjects of the conformance suite from stock jars: ready, restarted, dying, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from conformance.subjects.address import AddressSubject
from conformance.subjects.jars import JarsSubject, shared_classes
from conformance.subjects.properties import LOCK_LIVES
from tests.support.courses import Place, plays
from tests.support.java import OLD_SERVER, REFERENCE, classpath, java
from tests.support.process import processes_in, until
from tests.support.talk import Talk

pytestmark = pytest.mark.java
ROOT = Path(__file__).parents[2]


def from_start_to_death(place: Place, version: str) -> None:
    """A course: a subject is asked, restarted, and its broker killed."""
    classpath(version)
    subject = JarsSubject(version, place.directory)
    with subject as target:
        assert target.label == f"java-{version}"
        assert target.version == tuple(map(int, version.split(".")))
        assert target.config[LOCK_LIVES] == "5000"
        assert java() in target.details["java"]
        with AddressSubject(target.broker) as found:
            assert (found.namesrv, found.broker) == (target.namesrv, target.broker)
            # 4.9.7 was seen not to answer its version (code 28) just after its start.
            assert found.version == target.version or version == OLD_SERVER
            assert found.config["transactionTimeOut"] == target.config["transactionTimeOut"]
        with Talk(target.broker) as talk:
            assert talk.send("InJars", b"before").code == 0
        subject.restart_broker()
        with Talk(target.broker) as talk:
            assert until(lambda: talk.read("InJars"), "message after a restart") == [b"before"]
        subject.collect_logs(place.directory / "logs")
        assert (place.directory / "logs" / "broker" / "broker.out").exists()
        assert len(processes_in(place.directory)) == 2
        os.kill(subject.servers[-1].pid, signal.SIGKILL)
        until(lambda: not subject.alive(), "death of the broker")
    assert not processes_in(place.directory)


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(REFERENCE, marks=plays(from_start_to_death, REFERENCE, seconds=46)),
        pytest.param(OLD_SERVER, marks=[plays(from_start_to_death, OLD_SERVER, seconds=46), pytest.mark.nightly]),
    ],
)
def test_from_its_start_to_its_death(version: str, course: Future[None]) -> None:
    course.result()


def test_jvms_share_the_classes_of_the_jars() -> None:
    shared = shared_classes(REFERENCE, java())
    assert shared
    command = [java(), *shared, "-Xshare:on", "-cp", classpath(REFERENCE), "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0, "the archive is not taken"


def test_it_dies_with_the_one_that_keeps_it(tmp_path: Path) -> None:
    classpath(REFERENCE)
    command = [sys.executable, "-m", "conformance.subjects", f"jars-{REFERENCE}", "--json", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        try:
            assert holder.stdout is not None
            assert json.loads(holder.stdout.readline())["label"] == f"java-{REFERENCE}"
            assert len(processes_in(tmp_path)) == 3
        finally:
            holder.kill()
        holder.wait()
        until(lambda: not processes_in(tmp_path), "end of all")
