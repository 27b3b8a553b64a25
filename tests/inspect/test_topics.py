"""A topic that the store does not have is named with those like it; a store without messages is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import look
from tests.support.rmq import DEV, Server
from tests.support.stores import golden_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("topics") / "store")


def test_a_topic_that_is_not_there(store: Path, tmp_path: Path) -> None:
    said = f"rmq: no topic kinds-5_5_1 in {store}: did you mean kinds-5_5_0 or kinds-4_9_8?"
    to = tmp_path / "to.jsonl"
    for status, words in (
        (1, ("show", store)),
        (1, ("show", store, "--json")),
        (1, ("show", store / "commitlog", "--queue", 0)),
        (2, ("find", store, "b1")),
        (2, ("find", store, "--tag", "TagA", "--scan")),
        (1, ("explain", store, "--key", "b1")),
        (1, ("explain", store, "--queue", 0, "--at", 2)),
        (2, ("export", store, "--to", to)),
        (2, ("export", store, "--to", "-")),
    ):
        seen = look(*words, "--topic", "kinds-5_5_1")
        assert (seen.status, seen.err.splitlines()[-1]) == (status, said), words
        assert not seen.out or words[0] == "explain"
    assert not to.exists()


def test_a_topic_that_has_nothing_of_the_kind(store: Path) -> None:
    assert look("show", store, "--topic", "TBW102").status == 0
    seen = look("find", store, "no-such-key", "--topic", "kinds-5_5_0")
    assert (seen.status, seen.err.splitlines()[-1]) == (1, "rmq: nothing found")


def test_a_topic_whose_queues_and_name_are_lost(tmp_path: Path) -> None:
    """Its messages are in the log: that is what counts."""
    store = golden_store(tmp_path)
    (store / "config" / "topics.json").unlink()
    (store / "consumequeue" / "kinds-5_5_0").rename(tmp_path / "away")
    seen = look("show", store, "--topic", "kinds-5_5_0", "--limit", 1, "--json")
    assert (seen.status, len(seen.rows)) == (0, 1)


def test_a_store_into_which_nobody_has_sent(tmp_path: Path) -> None:
    with Server(tmp_path, *DEV, "--store", "store") as server:
        assert server.stop() == 0
    store = tmp_path / "store"
    assert look("show", store) == (0, "", "rmq: no messages yet\n")
    assert look("find", store, "a-key") == (1, "", "rmq: nothing found\n")
    assert look("stats", store).out.startswith("0 messages")
    assert look("verify", store).status == 0
    assert look("export", store, "--to", "-") == (0, "", "rmq: 0 messages to standard output\n")
    (store / "commitlog").rmdir()
    assert look("show", store).status == 2, "nobody knows where its log is"


def test_what_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("a letter\n")
    (tmp_path / "empty").mkdir()
    for words in (("show", "plain.txt"), ("show", "empty"), ("stats", "empty"), ("verify", "empty"), ("diff", "empty", "empty")):
        seen = look(words[0], *(tmp_path / word for word in words[1:]))
        assert (seen.status, seen.out) == (2, "")
        assert "not a RocketMQ store" in seen.err
