"""The key-value table under many writes: one text of the file at a time, made in slices; who waits has a limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl import whole_files
from broker_impl.engine.slices import finished
from broker_impl.namesrv import kv
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


def delete(key: str, opaque: int) -> bytes:
    return framed(102, {"namespace": "NS", "key": key}, b"", opaque)


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


FULL = OSError(28, "No space left on device")


def test_a_text_that_cannot_be_written_takes_back_what_the_disk_does_not_have(session: EngineSession) -> None:
    """Newest first: what came during the write rests on what was in it, and falls as well."""
    kept = {"NS": {"old": "1", "other": "2"}}
    for number, (key, value) in enumerate(kept["NS"].items()):
        session.client("a").raw(put(session, key, number, value=value))
    session.driver.held = True
    client = session.client("b")
    client.raw(put(session, "new", 1) + put(session, "old", 2, value="changed") + delete("old", 3) + put(session, "old", 4))
    client.raw(delete("other", 5) + put(session, "again", 6) + framed(100, {"namespace": "N2", "key": "k", "value": "v"}, b"", 7))
    client.raw(delete("nobody", 8))
    session.driver.end_job(FULL)
    session.driver.run()
    assert {number: said.code for number, said in client.answers.items()} == dict.fromkeys(range(1, 9), 1)
    assert "No space left" in (client.answers[8].remark or "")
    kv = session.server.kv
    assert (kv.of("NS"), kv.of("N2")) == (kept["NS"], None)
    size = kv._characters
    kv.load(Path(session.config.kv_config_path).read_bytes())
    assert size == kv._characters
    client.raw(put(session, "later", 9))
    session.driver.end_job()
    session.driver.run()
    assert client.answers[9].code == 0
    assert saved(session) == {"NS": {**kept["NS"], "later": "v"}}


def test_what_a_failed_write_leaves_on_the_disk_is_written_over(session: EngineSession) -> None:
    """The file had its new name already when the sync of its directory failed."""
    session.driver.held = True
    client = session.client("a")
    client.raw(put(session, "k", 1))
    session.driver.jobs[0].run()
    session.driver.end_job(OSError(5, "Input/output error"))
    assert saved(session) == {"NS": {"k": "v"}}
    session.driver.held = False
    session.driver.advance(whole_files.AGAIN_MS)
    assert client.answers[1].code == 1
    assert saved(session) == {}


def test_a_configuration_that_cannot_be_written_is_as_it_was(session: EngineSession) -> None:
    session.driver.held = True
    client = session.client("a")
    before = session.config.values()
    client.raw(framed(318, {}, b"enableTopicList=false\nscanNotActiveBrokerInterval=7\n", 1))
    client.raw(framed(318, {}, b"enableTopicList=true\nwaitSecondsForService=3\n", 2))
    session.driver.end_job(FULL)
    session.driver.run()
    assert {number: said.code for number, said in client.answers.items()} == {1: 1, 2: 1}
    assert session.config.values() == before
    assert session.config.enable_topic_list is True


def test_who_waits_for_a_disk_that_hangs_has_a_limit(session: EngineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "WAITING_MAX", 10)
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
    taken = sum(table.put("NS", str(number), "") is not None for number in range(100_000))
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
