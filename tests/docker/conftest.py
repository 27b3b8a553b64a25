"""The daemon, the images, and containers that never outlive their test.

Nothing here builds an image: RMQ_IMAGE names ours (default `rmq-py-broker`), ROCKETMQ_IMAGE the real one.  What is missing skips
with the reason, or fails where RMQ_REQUIRE contains `docker`.  Everything started carries the label `rmq.test`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.subjects.base import SubjectFailed
from conformance.subjects.compose import compose_program
from tests.support.java import missing

OURS = os.environ.get("RMQ_IMAGE", "rmq-py-broker")
REAL = os.environ.get("ROCKETMQ_IMAGE", "apache/rocketmq:5.5.0")
LABEL = "rmq.test"
Run = Callable[..., Any]
"""Starts a container of our image, as the SDK's `containers.run` does, but detached and removed at the end of the test."""


@pytest.fixture(scope="session")
def daemon() -> Iterator[Any]:
    """A client of the daemon (`docker.DockerClient`: the SDK has no types)."""
    try:
        import docker  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        missing("docker", "the Python package `docker` is not installed")
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as why:
        missing("docker", f"no Docker daemon answers: {why}")
    try:
        yield client
    finally:
        client.close()


def there(client: Any, image: str, how: str) -> str:
    """The image's name when the daemon has it."""
    if not client.images.list(name=image):
        missing("docker", f"no image {image}: {how}")
    return image


@pytest.fixture(scope="session")
def ours(daemon: Any) -> str:
    return there(daemon, OURS, f"docker build -t {OURS} .")


@pytest.fixture(scope="session")
def real(daemon: Any) -> str:
    return there(daemon, REAL, f"docker pull {REAL}, or name another with ROCKETMQ_IMAGE")


@pytest.fixture(scope="session")
def program(daemon: Any) -> list[str]:
    """Compose."""
    assert daemon
    try:
        return compose_program()
    except SubjectFailed as why:
        missing("docker", str(why))


@pytest.fixture
def run(daemon: Any, ours: str, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Start containers of ours; with their anonymous volumes they go when the test ends, however it ends."""
    started: list[Any] = []

    def start(*command: str, **options: Any) -> Any:
        made = daemon.containers.create(ours, list(command) or None, labels={LABEL: request.node.name}, **options)
        started.append(made)  # before it starts: a port that is taken fails there
        made.start()
        return made

    yield start
    for container in started:
        container.remove(force=True, v=True)


@pytest.fixture
def volume(daemon: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """A named volume; define it before `run` among a test's arguments: it is then removed after the containers."""
    made = daemon.volumes.create(labels={LABEL: request.node.name})
    yield made.name
    made.remove(force=True)
