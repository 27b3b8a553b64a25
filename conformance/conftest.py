"""`pytest conformance --subject NAME`: every case is one test, all against one subject that is started once.

A failure that `conformance/expected` foretells is an xfail, a case that passes against it a failure.  Cases run one by one here;
`rmq conform` runs them side by side and writes the report.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.case import Level, load
from conformance.runner import Selection
from conformance.subjects.base import SubjectFailed
from conformance.suite import WAYS, Session

CANNOT_RUN = 2
"""As of `rmq conform`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's options; pytest's own (`-k`, ids) select too."""
    group = parser.getgroup("conformance")
    group.addoption("--subject", default="ours", metavar="NAME", help=f"whom to ask: {WAYS} [ours]")
    group.addoption("--only", action="append", default=[], metavar="GLOB", help="cases by id, as `rmq conform` takes them")
    group.addoption("--level", default=",".join(level.value for level in Level), metavar="LIST", help="levels of cases [all]")
    group.addoption("--slow", action="store_true", help="also the cases that take more than 20 s")
    group.addoption("--expect", default="", metavar="LABEL", help="whose expectations hold, where not the subject's own")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a case."""
    if "conformance_case" in metafunc.fixturenames:
        option = metafunc.config.getoption
        levels = frozenset(Level(word.strip()) for word in option("--level").split(","))
        cases = Selection(option("--only"), levels, option("--slow")).of(load().values())
        metafunc.parametrize("conformance_case", [pytest.param(case, id=case.id) for case in cases])


@pytest.fixture(scope="session")
def conformance_session(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The running subject."""
    option = pytestconfig.getoption
    session = Session(option("--subject"), tmp_path_factory.mktemp("subject"), expectations=option("--expect"))
    try:
        session.start()
    except SubjectFailed as why:
        pytest.exit(f"rmq: {why}", returncode=CANNOT_RUN)
    try:
        yield session
    finally:
        session.end()
