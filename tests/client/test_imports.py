"""What importing the client brings in: sets of modules, which no machine makes slower."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import rmq_client
from tests.support import face_methods
from tests.support.rmq import ROOT

HEAVY = {"trio", "asyncio", "construct", "msgspec", "attr", "numpy", "ssl"}
CONSUMING = {
    f"rmq_client.{name}" for name in ("broker_calls", "consuming.push_consumer", "consuming.orderly", "consuming.allocation")
}


def loaded(code: str) -> set[str]:
    """Modules that an interpreter has after this."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


def test_the_package_alone_brings_nothing() -> None:
    seen = loaded("import rmq_client")
    assert not seen & HEAVY
    assert {name for name in seen if name.startswith("rmq_")} == {"rmq_client"}


def test_values_and_errors_come_without_what_talks_to_servers() -> None:
    names = [name for name in rmq_client.__all__ if name not in ("connect", "Client")]
    seen = loaded(f"from rmq_client import {', '.join(names)}")
    assert not seen & {"trio", "asyncio", "ssl", "rmq_net.connection", "rmq_client.core", "rmq_client.client"}


@pytest.mark.parametrize(("face", "not_needed"), [("blocking", {"trio", "asyncio", "ssl"}), ("aio", {"trio"})])
def test_a_face_comes_without_the_loop_below_it(face: str, not_needed: set[str]) -> None:
    seen = loaded(f"from rmq_client.{face} import connect")
    assert f"rmq_client.{face}" in seen
    assert not seen & (not_needed | CONSUMING | {"construct", "rmq_net.connection", "rmq_client.client"})


def test_who_only_sends_imports_nothing_that_consumes() -> None:
    seen = loaded("from rmq_client import connect")
    assert {"rmq_client.client", "trio"} <= seen
    assert not seen & CONSUMING
    assert not any(name.startswith("rmq_store") for name in seen)


def test_the_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "rmq_client/__init__.py").read_text())
    [checked] = [one for one in tree.body if isinstance(one, ast.If)]
    seen = {}
    for one in checked.body:
        assert isinstance(one, ast.ImportFrom)
        [alias] = one.names
        assert alias.asname == alias.name
        seen[alias.name] = one.module
    modules = {name: seen.pop(name) for name in ("aio", "blocking")}
    assert set(modules.values()) == {"rmq_client"}
    assert seen == rmq_client._MODULES
    assert {*rmq_client.__all__, "aio", "blocking"} <= set(dir(rmq_client))


def test_each_name_is_there_and_no_other() -> None:
    for name, module in rmq_client._MODULES.items():
        assert getattr(rmq_client, name) is getattr(import_module(module), name)
    assert rmq_client.blocking.connect is not rmq_client.connect
    assert rmq_client.aio.connect is not rmq_client.connect
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        rmq_client.conect  # noqa: B018


@pytest.mark.parametrize(("way", "module"), [(face_methods.BLOCKING, "blocking"), (face_methods.AIO, "aio")])
def test_the_faces_have_the_core_s_methods(way: face_methods.Way, module: str) -> None:
    written = (ROOT / f"rmq_client/faces/{module}_methods.py").read_text()
    assert written == face_methods.source(way), "make pages"
