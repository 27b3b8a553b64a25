"""The key-value table under many writes: one text of the file at a time, made in slices; who waits has a limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.namesrv import files, kv
from broker_impl.slices import finished
from rmq_wire import fastjson
from rmq_wire.java import iteration_order
from tests.support.engine_session import EngineSession
from tests.support.exchange import framed
from tests.support.given import TEXT


@pytest.fixture
def session(tmp_path: Path) -> EngineSession:
    return EngineSession(str(tmp_path))


def put(session: EngineSession, key: str, opaque: int, *, value: str = "v") -> bytes:
    return framed(100, {"namespace": "NS", "key": key, "value": value}, b"", opaque)


def saved(session: EngineSession) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = json.loads(Path(session.config.kv_config_path).read_bytes())["configTable"]
    return table


def test_writes_are_gathered_into_one_text_at_a_time(session: EngineSession) -> None:
    session.driver.held = True
    client = session.client("a")
    client.raw(b"".join(put(session, f"k{number}", number) for number in range(1_500)))
    assert len(session.driver.jobs) == 1, "neighbours: 66 KB of deletes queued 3.1 GB of texts"
    assert not client.answers
    answered = []
    while session.driver.jobs:
        session.driver.end_job()
        session.driver.run()
        answered.append(len(client.answers))
        assert len(saved(session)["NS"]) >= len(client.answers), "what is answered is in the file"
    assert answered[-1] == 1_500
    assert len(answered) == 2, "the first write's, and one for all that came meanwhile"
    assert saved(session)["NS"] == {f"k{number}": "v" for number in range(1_500)}
    assert {said.code for said in client.answers.values()} == {0}


def test_a_text_that_cannot_be_written_is_everybodys_who_waits_for_it_and_nobody_elses(session: EngineSession) -> None:
    session.driver.held = True
    client = session.client("a")
    client.raw(put(session, "first", 1) + put(session, "second", 2))
    client.raw(put(session, "third", 3))
    session.driver.end_job(OSError(28, "No space left on device"))
    session.driver.run()
    assert {number: said.code for number, said in client.answers.items()} == {1: 1, 2: 1}
    session.driver.end_job()
    session.driver.run()
    assert client.answers[3].code == 0
    assert saved(session)["NS"] == {"first": "v", "second": "v", "third": "v"}


def test_who_waits_for_a_disk_that_hangs_has_a_limit(session: EngineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAITING_MAX", 10)
    session.driver.held = True
    client = session.client("a")
    client.raw(put(session, "k", 0))
    client.raw(b"".join(put(session, f"k{number}", number) for number in range(1, 21)))
    assert [said.code for said in client.answers.values()] == [2] * 10
    session.driver.held = False
    session.driver.run()
    assert sorted(said.code for said in client.answers.values()) == [0] * 11 + [2] * 10
    assert len(saved(session)["NS"]) == 11, "a change that is refused is not made"


def test_entries_without_text_fill_the_table_too() -> None:
    table = kv.KvTable()
    taken = sum(table.put("NS", str(number), "") for number in range(100_000))
    assert 70_000 < taken < 84_000
    table.delete("NS", "7")
    assert table.put("NS", "again", "")


@settings(max_examples=30)
@given(st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT, max_size=5), max_size=20), st.integers(0, 300))
def test_the_file_is_what_java_writes(table: dict[str, dict[str, str]], more: int) -> None:
    made = kv.KvTable()
    table = {**table, "many": {str(number): "" for number in range(more)}}
    for namespace, entries in table.items():
        for key, value in entries.items():
            made.put(namespace, key, value)
    there = {namespace: entries for namespace, entries in table.items() if entries}
    expected = {
        namespace: {key: there[namespace][key] for key in iteration_order(there[namespace])}
        for namespace in iteration_order(there)
    }
    assert finished(made.document()) == fastjson.dumps_fastjson({"configTable": expected})
