"""Subjects of the conformance suite from stock jars: ready, restarted, dying, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.subjects.address import AddressSubject
from conformance.subjects.jars import JarsSubject
from conformance.subjects.properties import LOCK_LIVES
from tests.cli.rmq import Talk
from tests.support.java import OLD_SERVER, REFERENCE, classpath, java
from tests.support.process import processes_in, until

pytestmark = pytest.mark.java
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("version", [REFERENCE, pytest.param(OLD_SERVER, marks=pytest.mark.nightly)])
def test_from_its_start_to_its_death(version: str, tmp_path: Path) -> None:
    classpath(version)
    subject = JarsSubject(version, tmp_path)
    with subject as target:
        assert target.label == f"java-{version}"
        assert target.version == tuple(map(int, version.split(".")))
        assert target.config[LOCK_LIVES] == "5000"
        assert java() in target.details["java"]
        with AddressSubject(target.broker) as found:
            assert (found.namesrv, found.broker) == (target.namesrv, target.broker)
            # 4.9.7 was seen not to tell its version (code 28) just after its start.
            assert found.version == target.version or version == OLD_SERVER
            assert found.config["transactionTimeOut"] == target.config["transactionTimeOut"]
        with Talk(target.broker) as talk:
            assert talk.send("InJars", b"before").code == 0
        subject.restart_broker()
        with Talk(target.broker) as talk:
            assert until(lambda: talk.read("InJars"), "message after a restart") == [b"before"]
        subject.collect_logs(tmp_path / "logs")
        assert (tmp_path / "logs" / "broker" / "broker.out").exists()
        assert len(processes_in(tmp_path)) == 2
        os.kill(subject.servers[-1].pid, signal.SIGKILL)
        until(lambda: not subject.alive(), "death of the broker")
    assert not processes_in(tmp_path)


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
