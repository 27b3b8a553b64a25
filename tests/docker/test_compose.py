"""The compose file: it parses, and brings up the real RocketMQ and ours side by side."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.subjects.ports import reserve_port
from tests.support.process import until
from tests.support.reference import registered
from tests.support.talk import Talk

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
COMPOSE_S_MAX = 180.0
"""Up takes 7 s, the real broker's clean stop 13 s; this is for a machine whose cores are all taken."""


class Project:
    """One use of the compose file, with a name and ports of its own."""

    def __init__(self, program: Sequence[str], **variables: str) -> None:
        self.name = f"rmq-test-{uuid.uuid4().hex[:8]}"
        self.program = [*program, "--project-name", self.name, "--file", str(ROOT / "docker-compose.yml")]
        self.variables = variables

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.program, *arguments],
            capture_output=True,
            text=True,
            timeout=COMPOSE_S_MAX,
            check=False,
            env={**os.environ, **self.variables},
            cwd=ROOT,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def project(program: list[str], ours: str, real: str) -> Iterator[Project]:
    ports = ("NAMESRV_PORT", "BROKER_PORT", "RMQ_NAMESRV_PORT", "RMQ_BROKER_PORT")
    made = Project(program, RMQ_IMAGE=ours, ROCKETMQ_IMAGE=real, **{name: str(reserve_port()) for name in ports})
    try:
        yield made
    finally:
        made("down", "--volumes", "--timeout", "1")  # what the real broker leaves goes with it: no clean stop


def test_it_parses_and_publishes_on_loopback_only(program: list[str]) -> None:
    printed = Project(program)("config")
    assert "apache/rocketmq:5.5.0" in printed or "ROCKETMQ_IMAGE" in os.environ
    for service in ("namesrv:", "broker:", "ours:"):
        assert service in printed
    published = [line.strip() for line in printed.splitlines() if "127.0.0.1:" in line or "host_ip:" in line]
    assert len(published) >= 4
    assert "0.0.0.0:" not in printed


def test_the_real_one_and_ours_side_by_side(project: Project, daemon: Any) -> None:
    project("up", "-d", "--no-build")
    ours, real = (
        (f"127.0.0.1:{project.variables[f'{who}NAMESRV_PORT']}", f"127.0.0.1:{project.variables[f'{who}BROKER_PORT']}")
        for who in ("RMQ_", "")
    )
    answers = {}
    for namesrv, broker in (ours, real):
        until(lambda: registered(namesrv, broker), f"registration of {broker} at {namesrv}")  # noqa: B023
        with Talk(broker) as talk:
            answer = talk.send("SideBySide", b"the same")
            assert answer.code == 0, (broker, answer)
            answers[broker] = until(lambda: talk.read("SideBySide"), f"message at {broker}")
    assert list(answers.values()) == [[b"the same"]] * 2
    [identity] = project("ps", "-q", "ours").split()
    container = daemon.containers.get(identity)

    def healthy() -> bool:
        container.reload()
        return bool(container.attrs["State"]["Health"]["Status"] == "healthy")

    assert until(healthy, "health of ours")
    project("stop", "ours")
    assert daemon.api.inspect_container(identity)["State"]["ExitCode"] == 0
