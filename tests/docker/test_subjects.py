"""Subjects of the conformance suite in containers: found ready, read from outside, and removed however it ends."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.subjects.base import SubjectFailed
from conformance.subjects.compose import ComposeSubject
from conformance.subjects.docker import LABEL, DockerSubject, remove_leftovers
from conformance.subjects.ports import reserve_port
from tests.support.process import until
from tests.support.talk import Talk

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]


def left(daemon: Any) -> set[str]:
    """Ids of all containers that a subject or a compose project of one has made."""
    filters = ({"label": LABEL}, {"name": "rmq-conformance"})
    return {container.id for by in filters for container in daemon.containers.list(all=True, filters=by)}


@pytest.fixture(autouse=True)
def nothing_is_left(daemon: Any) -> Iterator[None]:
    before = left(daemon)
    yield
    assert left(daemon) <= before


def test_the_real_one_from_its_start_to_its_death(daemon: Any, real: str, tmp_path: Path) -> None:
    subject = DockerSubject(real, tmp_path)
    with subject as target:
        assert target.kind == "docker"
        assert subject.label == target.label != "docker"
        assert target.details["image id"].startswith("sha256:")
        assert target.details["image"] == real
        assert target.details["rocketmq.image"]
        with Talk(target.broker) as talk:
            assert talk.send("InContainers", b"to be read on the disk").code == 0
        assert target.store is not None
        log = min((target.store / "commitlog").iterdir())
        assert until(lambda: b"to be read on the disk" in log.read_bytes()[:100_000], "message on the disk")
        subject.collect_logs(tmp_path / "logs")
        assert (tmp_path / "logs" / "broker.out").exists()
        assert list((tmp_path / "logs" / "broker").rglob("broker.log"))
        assert subject.alive()
        [broker] = [one for one in daemon.containers.list(filters={"label": LABEL}) if "broker" in one.name]
        broker.kill()
        until(lambda: not subject.alive(), "death of the broker")
    assert not subject.alive()
    assert "boot success" in subject.log_tail()


def test_no_such_image(daemon: Any) -> None:
    assert daemon
    with pytest.raises(SubjectFailed, match=r"no image apache/rocketmq:0\.0\.1 here, and it cannot be pulled"):
        DockerSubject("apache/rocketmq:0.0.1").__enter__()


def test_an_image_of_something_else(ours: str, tmp_path: Path) -> None:
    with pytest.raises(SubjectFailed, match=r"start of namesrv: the process has ended with status \d+; it printed") as caught:
        DockerSubject(ours, tmp_path).__enter__()
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken(real: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", reserve_port())) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SubjectFailed, match=f"port {port} is taken"):
            DockerSubject(real, tmp_path, broker_port=port).__enter__()


def test_what_a_killed_run_left_is_removed_by_the_next(daemon: Any, real: str) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    orphan = daemon.containers.create(real, ["true"], labels={LABEL: f"{socket.gethostname()}:{gone.pid}"})
    ours = daemon.containers.create(real, ["true"], labels={LABEL: f"{socket.gethostname()}:{os.getpid()}"})
    try:
        remove_leftovers(daemon)
        assert orphan.id not in left(daemon)
        assert ours.id in left(daemon)
    finally:
        ours.remove(force=True)


def test_what_a_compose_file_brings_up(program: list[str], real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program
    monkeypatch.setenv("ROCKETMQ_IMAGE", real)
    subject = ComposeSubject(ROOT / "docker-compose.yml")
    with subject as target:
        assert target.kind == "compose"
        assert target.version is not None
        assert real in target.details["images"]
        assert subject.alive()
        with Talk(target.broker) as talk:
            assert talk.send("Composed", b"from the host").code == 0
    assert not subject.alive()
    assert "boot success" in subject.log_tail(1 << 20)
