"""The suite around its runner: subjects in one word, subjects that others keep, cleaning up, and being interrupted."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trio
from click.testing import CliRunner

from conformance.subjects.base import SubjectFailed
from conformance.suite.cleaning import clean, prepare
from conformance.suite.run import KeptSubject, run_on, subject_of
from conformance.suite.runner import Limits
from conformance.suite.trial import READERS, CaseSkipped, Trial
from rmq_cli.conform import command
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from tests.support.fake_remoting import FakeSubject, answer, serve, target_at
from tests.support.planted import passes, planted

ROOT = Path(__file__).parents[2]


class Made:
    """A server that lists what a run left on it, and takes orders to delete."""

    LATE = "CONF_ab1x3_t_9"
    """What the broker registered when it was deleted already."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.deleted: list[tuple[int, str]] = []

    def __call__(self, asked: Command) -> bytes:
        tables: dict[int, str] = {
            RequestCode.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
        }
        if asked.code in tables:
            return answer(asked, body=json.dumps({tables[asked.code]: {name: {} for name in self.names}}).encode())
        if asked.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return answer(asked, body=json.dumps({"topicList": [*self.names[2:], self.LATE]}).encode())
        ext = asked.ext_map()
        if "topic" in ext or "groupName" in ext:
            self.deleted.append((asked.code, ext.get("topic") or ext["groupName"]))
        return answer(asked)


def test_what_a_run_made_is_deleted_and_nothing_else() -> None:
    server = Made("CONF_ab1x_t_1", "%RETRY%CONF_ab1x2_g_2", "CONF_zz1_t_1", "orders", "ab1x")

    async def main() -> str:
        async with trio.open_nursery() as nursery:
            reported = await clean(target_at(await serve(nursery, server)), "ab1x")
            nursery.cancel_scope.cancel()
        return reported

    assert trio.run(main) == "2 topics and 2 groups"
    names = {"CONF_ab1x_t_1", "%RETRY%CONF_ab1x2_g_2"}
    assert set(server.deleted) == {(code, name) for code in (207, 215, 216) for name in names} | {(216, Made.LATE)}


def test_what_a_run_wants_to_find_is_made_and_taken_away() -> None:
    asked: list[bytes] = []

    def server(command: Command) -> bytes:
        if command.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
            asked.append(bytes(command.body))
        return answer(command)

    async def main(config: dict[str, str]) -> None:
        async with trio.open_nursery() as nursery:
            await prepare(dataclasses.replace(target_at(await serve(nursery, server)), config=config))
            nursery.cancel_scope.cancel()

    trio.run(main, {})
    trio.run(main, {"autoCreateSubscriptionGroup": "true"})
    assert asked == []
    alone = {"autoCreateSubscriptionGroup": "false"}
    trio.run(main, alone)
    assert [json.loads(body)["groupName"] for body in asked] == [READERS]
    trio.run(prepare, dataclasses.replace(target_at("127.0.0.1:1"), config=alone))
    made = Made(READERS, "CONF_readers")

    async def after() -> str:
        async with trio.open_nursery() as nursery:
            reported = await clean(target_at(await serve(nursery, made)), "ab1x")
            nursery.cancel_scope.cancel()
        return reported

    assert trio.run(after) == "1 topics and 1 groups"


def test_a_case_does_not_apply_where_the_broker_is_set_otherwise() -> None:
    async def case(config: dict[str, str]) -> str:
        async with trio.open_nursery() as nursery:
            trial = Trial(dataclasses.replace(target_at("127.0.0.1:1"), config=config), nursery, mark="m")
            try:
                trial.wants("autoCreateTopicEnable", "true")
            except CaseSkipped as why:
                return str(why)
        return ""

    assert trio.run(case, {}) == trio.run(case, {"autoCreateTopicEnable": "true"}) == ""
    assert trio.run(case, {"autoCreateTopicEnable": "false"}) == "here autoCreateTopicEnable is false"


def test_a_server_that_does_not_answer_is_left_as_it_is() -> None:
    assert "no connection to 127.0.0.1:1" in trio.run(clean, target_at("127.0.0.1:1"), "ab1x")


@pytest.mark.parametrize(("kind", "cleaned"), [("ours", False), ("jars", False), ("address", True), ("compose", True)])
def test_servers_that_go_on_are_cleaned(kind: str, cleaned: bool) -> None:
    made = run_on(FakeSubject(script=Made(), kind=kind), [planted("a.b", passes)], seed=1, limits=Limits())
    assert ("deleted afterwards" in made.target.details) is cleaned


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """What `python -m conformance.subjects NAME --json` prints."""
    with FakeSubject(script=Made(), kind="jars") as target:
        path = tmp_path / "kept.json"
        path.write_bytes(msgspec.json.encode(target, enc_hook=str))
        yield path


def test_a_kept_subject_is_asked_and_cleaned_and_goes_on(kept: Path) -> None:
    for _ in range(2):
        made = run_on(subject_of(f"kept:{kept}", kept.parent), [planted("a.b", passes)], seed=1)
        assert (made.cases[0].outcome, made.target.kind) == ("passed", "jars")
        assert made.target.details["deleted afterwards"] == "0 topics and 0 groups"


def test_a_kept_subject_with_a_store(tmp_path: Path) -> None:
    with FakeSubject() as there:
        target = replace(there, store=tmp_path, config={"a": "b"})
        (tmp_path / "kept.json").write_bytes(msgspec.json.encode(target, enc_hook=str))
        with KeptSubject(tmp_path / "kept.json") as found:
            assert found == target
    with pytest.raises(SubjectFailed, match=r"fake is not at 127\.0\.0\.1:\d+ any more"):
        KeptSubject(tmp_path / "kept.json").__enter__()
    (tmp_path / "kept.json").write_text("{}")
    with pytest.raises(SubjectFailed, match="does not say where a subject is"):
        KeptSubject(tmp_path / "kept.json").__enter__()


@pytest.mark.parametrize("word", ["", "theirs", "kept:", "addr:", "ours:5"])
def test_no_such_subject(word: str, tmp_path: Path) -> None:
    with pytest.raises(SubjectFailed):
        subject_of(word, tmp_path)


@pytest.mark.parametrize(
    ("word", "label"), [("ours", "ours"), ("jars:5.3.3", "java-5.3.3"), ("jars:", "java-5.5.0"), ("addr:h:1", "address")]
)
def test_subjects_in_one_word(word: str, label: str, tmp_path: Path) -> None:
    assert subject_of(word, tmp_path).label == label


# As a user runs it


def test_an_address_where_nobody_listens_is_one_line_and_status_2() -> None:
    done = CliRunner().invoke(command, ["--addr", "127.0.0.1:1", "--only", "frame"])
    assert done.exit_code == 2
    [line] = [line for line in done.stderr.splitlines() if not line.endswith(": starting")]
    assert line.startswith("rmq: ")
    assert "127.0.0.1:1" in line


def test_an_interruption_comes_out_as_it_went_in(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        async with trio.open_nursery():
            raise KeyboardInterrupt

    monkeypatch.setattr("conformance.suite.runner.absent_needs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_on(subject_of(f"kept:{kept}", kept.parent), [planted("a.b", passes)], seed=1)


def conform(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rmq_cli.main", "conform", "--json", str(tmp_path / "r.json"), *arguments]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_end_writes_what_it_found(number: int, tmp_path: Path) -> None:
    asked = threading.Event()

    def silent(command: Command) -> bytes:
        asked.set()
        return b""

    with FakeSubject(script=silent) as target:
        (tmp_path / "kept").write_bytes(msgspec.json.encode(target, enc_hook=str))
        running = conform(tmp_path, "--kept", str(tmp_path / "kept"), "--only", "offsets")
        assert asked.wait(60)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert said.splitlines()[-1] == "rmq: fake: the run was interrupted"
    [run] = json.loads((tmp_path / "r.json").read_bytes())["runs"]
    assert run["ended"] == "the run was interrupted"
    assert {case["outcome"] for case in run["cases"]} <= {"not run", "skipped"}


def test_who_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    running = conform(tmp_path, "--ours", "--only", "offsets")
    assert running.stderr is not None
    while "broker 127.0.0.1" not in (line := running.stderr.readline()):
        assert line, "it has ended"
    running.terminate()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith("rmq-ports-")]
    assert left == ["r.json"], "the servers' directory is gone, and they with it; locks of ports stay"
    assert "Traceback" not in said
