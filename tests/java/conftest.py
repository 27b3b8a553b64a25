"""What the tests with stock Java clients share: a server under test and one JVM per client version, both for the whole run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.support.clients import JavaDriver
from tests.support.java import OLD_CLIENT, REFERENCE, java
from tests.support.subject import SUBJECTS, Subject, start_subject

CLIENT_VERSIONS = (REFERENCE, OLD_CLIENT)

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a master, ours or Java's."""
    java()
    running = start_subject(request.param, tmp_path_factory.mktemp(request.param))
    yield running
    running.end()


@pytest.fixture(scope="session", params=CLIENT_VERSIONS)
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """Stock clients of one version, that rebalance each second instead of each 20 s."""
    with JavaDriver(tmp_path_factory.mktemp(f"clients-{request.param}"), request.param) as driver:
        driver.call("rebalance_interval", ms=1000)
        yield driver


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test of this run uses: `fresh("topic")` -> `topic-7`."""
    return lambda stem: f"{stem}-{next(_numbers)}"
