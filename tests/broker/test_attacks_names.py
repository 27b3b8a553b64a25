"""Attacks by names that would become paths, and by what lies in the store's directories.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmq_store.errors import StoreError
from rmq_wire import names
from rmq_wire.batch import Item
from rmq_wire.headers.clients import GetConsumerListByGroup, Heartbeat, UnregisterClient
from rmq_wire.headers.groups import (
    DeleteSubscriptionGroup,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateGroupForbidden,
)
from rmq_wire.headers.locks import LockBatchMq
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.headers.topics import CreateTopic, CreateTopicList, DeleteTopic
from tests.broker.siege import siege, two_topics
from tests.support.requests import batch, heartbeat, pairs, pull, send

BAD_NAMES = {
    "dot-dot": "..",
    "dot": ".",
    "path": "a/b",
    "climbing": "../../../../tmp/evil",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "NUL": "a\0b",
    "newline": "a\nb",
    "blank": " ",
    "empty": "",
    "tab": "a\tb",
    "128": "x" * 128,
    "4096": "x" * 4_096,
    "not-ASCII": "тема",
    "wide-dots": "．．",
    "bidi": "\u202egnp.x",
    "drive": "C:",
    "stream": "a::$DATA",
    "quoted": '"a"',
    "shell": "$(id)",
    "glob": "*",
    "hidden": ".git",
}
LAWFUL_BEHIND_A_PREFIX = ("empty", "128")
"""In topics of retries and dead letters, as in the reference."""


def names_but(*left_out: str) -> pytest.MarkDecorator:
    chosen = {label: name for label, name in BAD_NAMES.items() if label not in left_out}
    return pytest.mark.parametrize("name", chosen.values(), ids=chosen.keys())


bad_names = names_but()


# 31: topics


@bad_names
def test_attack_31_a_topic_that_is_a_path(tmp_path: Path, name: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        queues: dict[str, Any] = {
            "default_topic": "TBW102",
            "read_queue_nums": 4,
            "write_queue_nums": 4,
            "perm": 6,
            "order": False,
        }
        listed = {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        requests: list[tuple[Any, bytes]] = [
            (send(name), b"x"),
            (send(name, properties=pairs(DELAY="1")), b"x"),
            batch(Item(0, b"one", b""), topic=name),
            (CreateTopic(topic=name, topic_filter_type="SINGLE_TAG", **queues), b""),
            (CreateTopicList(), json.dumps({"topicConfigList": [{**listed, "topicName": "Good"}, listed]}).encode()),
            (DeleteTopic(topic=name), b""),
        ]
        for asked, body in requests:
            answer = unknown.ask(asked, body)
            assert answer.code == 29, (type(asked).__name__, answer.remark)
            assert len(answer.remark or "") < 4_096 + 200
        assert unknown.ask(pull(name)).code == 17
        assert "Good" not in broker.node.topics


@bad_names
def test_attack_31_a_template_topic_that_is_a_path(tmp_path: Path, name: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        assert broker.connect().ask(send("New", default_topic=name), b"x").code == 17


def test_attack_31_names_that_only_another_system_fears(tmp_path: Path) -> None:
    for name in ("CON", "nul", "Com1", "LPT9.txt", "AUX", "x.", "x "):
        assert names.path_problem(name, windows=True)
    assert names.path_problem("CONSOLE", windows=True) is None


def test_attack_31_twins_but_for_their_case_are_two_topics(tmp_path: Path) -> None:
    with siege(tmp_path) as broker:
        for name in ("Twin", "TWIN", "twin"):
            broker.topic(name)
            assert broker.connect().ask(send(name), name.encode()).code == 0
        for name in ("Twin", "TWIN", "twin"):
            assert [unit.body for unit in broker.stored(name, 0)] == [name.encode()]


# 32: groups and other ways to a name


@bad_names
def test_attack_32_a_group_that_is_a_path(tmp_path: Path, name: str) -> None:
    """A group becomes %RETRY% and %DLQ% topics."""
    with two_topics(tmp_path) as broker:
        [secret] = broker.stored("Secret", 0)
        with broker.unharmed():
            unknown = broker.connect()
            subscription = {"topic": "T", "subString": "*", "subVersion": 1}
            consumer = {"groupName": name, "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [subscription]}
            producer = {"groupName": name}
            body = json.dumps({"clientID": name[:128], "consumerDataSet": [consumer], "producerDataSet": [producer]}).encode()
            assert unknown.ask(Heartbeat(), body).code == 0
            assert not broker.node.clients.consumer_groups
            group = json.dumps({"groupName": name}).encode()
            good = json.dumps({"groupConfigList": [{"groupName": "Good"}, {"groupName": name}]}).encode()
            refused: list[tuple[Any, bytes, int]] = [
                (ConsumerSendMsgBack(offset=secret.physical_offset, group=name, delay_level=0, origin_topic="Secret"), b"", 26),
                (UpdateAndCreateSubscriptionGroup(), group, 29),
                (UpdateAndCreateSubscriptionGroupList(), good, 29),
                (GetSubscriptionGroupConfig(group=name), b"", 26),
                (UpdateGroupForbidden(group=name, topic="T", readable=False), b"", 29),
                (UpdateConsumerOffset(consumer_group=name, topic="T", queue_id=0, commit_offset=0), b"", 26),
                (pull("T", consumer_group=name), b"", 26),
                (GetConsumerListByGroup(consumer_group=name), b"", 1),
            ]
            for asked, body, code in refused:
                answer = unknown.ask(asked, body)
                assert answer.code == code, (type(asked).__name__, answer.code, answer.remark)
            assert unknown.ask(UnregisterClient(client_id="c", producer_group=name, consumer_group=name)).code == 0
            assert unknown.ask(DeleteSubscriptionGroup(group_name=name, clean_offset=True)).code in (0, 29)
            locks = json.dumps({"consumerGroup": name, "clientId": name, "mqSet": [{"topic": name, "queueId": 0}]}).encode()
            assert unknown.ask(LockBatchMq(), locks).code in (0, 1)


@names_but(*LAWFUL_BEHIND_A_PREFIX)
def test_attack_32_a_retry_topic_that_is_a_path(tmp_path: Path, name: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        for topic in ("%RETRY%" + name, "%DLQ%" + name, "%RETRY%G+" + name):
            answer = broker.connect().ask(send(topic), b"x")
            assert answer.code == 29, answer.remark


@bad_names
def test_attack_32_names_in_the_files_of_the_store(tmp_path: Path, name: str) -> None:
    """topics.json and its like may come from anywhere, a backup or another broker."""
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    topic = {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    version = {"counter": 1, "timestamp": 1, "stateVersion": 0}
    (config / "topics.json").write_text(json.dumps({"dataVersion": version, "topicConfigTable": {name: topic}}))
    (config / "subscriptionGroup.json").write_text(
        json.dumps({"dataVersion": version, "subscriptionGroupTable": {name: {"groupName": name}}, "forbiddenTable": {}})
    )
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": {f"{name}@{name}": {"0": 5}}}))
    with siege(tmp_path) as broker:
        assert not names.path_problem(name) or name not in broker.node.topics
        with broker.unharmed():
            assert broker.connect().ask(send(name), b"x").code == 29


# 33: what is not to be removed


def test_attack_33_system_topics_stay(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        for name in sorted(broker.node.topics.system | names.SYSTEM_TOPICS | {"rmq_sys_anything"}):
            assert unknown.ask(DeleteTopic(topic=name)).code == 29, name


def test_attack_33_what_is_no_queue_file_survives_its_topic(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_bytes(b"precious")
        queue = broker.root / "consumequeue" / "Secret" / "0"
        assert [entry.name for entry in queue.iterdir()] == ["0" * 20]
        (queue / "notes.txt").write_text("mine")
        (queue / "0123").write_text("mine")
        (queue / f"{6_000:020}").symlink_to(outside / "precious")
        (queue / "dir").mkdir()
        (queue.parent / "7").symlink_to(outside)
        (queue.parent / "notes").mkdir()
        with broker.unharmed("messages", "topics"):
            assert broker.connect().ask(DeleteTopic(topic="Secret")).code == 0
        assert (outside / "precious").read_bytes() == b"precious"
        assert sorted(entry.name for entry in queue.iterdir()) == [f"{6_000:020}", "0123", "dir", "notes.txt"]
        assert (queue.parent / "7").is_symlink()
        for stray in (queue / f"{6_000:020}", queue.parent / "7", queue / "0123", queue / "notes.txt"):
            stray.unlink()


def test_attack_33_a_queue_file_that_became_a_link_goes_alone(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        precious = tmp_path / "precious"
        queue_file = broker.root / "consumequeue" / "Secret" / "0" / ("0" * 20)
        precious.write_bytes(queue_file.read_bytes())
        queue_file.unlink()
        queue_file.symlink_to(precious)
        assert broker.connect().ask(DeleteTopic(topic="Secret")).code == 0
        assert precious.stat().st_size == 6_000
        assert not queue_file.is_symlink()
        broker.keep_faith()


# 34: links, pipes and sockets in the store


def link_to_file(path: Path, outside: Path) -> None:
    target = outside / "target"
    target.write_bytes(path.read_bytes() if path.is_file() else b"precious")
    remove(path)
    path.symlink_to(target)


def link_to_nothing(path: Path, outside: Path) -> None:
    remove(path)
    path.symlink_to(outside / "nothing")


def pipe(path: Path, outside: Path) -> None:
    remove(path)
    os.mkfifo(path)


def local_socket(path: Path, outside: Path) -> None:
    remove(path)
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path.name)
    finally:
        os.chdir(here)


def remove(path: Path) -> None:
    if path.is_symlink() or path.exists():
        path.unlink()


FILES = [
    "commitlog/00000000000000000000",
    "consumequeue/Secret/0/00000000000000000000",
    "index/20231114221320000",
    "checkpoint",
    "abort",
    "lock",
    *(f"config/{name}.json" for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset")),
    "config/topics.json.bak",
]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("plant", [link_to_file, link_to_nothing, pipe, local_socket])
def test_attack_34_a_file_of_the_store_that_is_none(tmp_path: Path, file: str, plant: Callable[[Path, Path], None]) -> None:
    """The start is refused by name; nothing was opened behind the link; without it the store starts as it was."""
    outside = tmp_path / "outside"
    outside.mkdir()
    with two_topics(tmp_path) as broker:
        heartbeat(broker.connect(), "G", "Secret")
        messages = broker.state()["messages"]
        assert broker.node.close()
        path = broker.root / file
        kept = path.read_bytes() if path.is_file() else None
        if file.endswith(".bak"):
            path.with_suffix("").write_bytes(b"")  # so that the backup is what counts
        plant(path, outside)
        before = {entry: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in outside.iterdir()}
        with pytest.raises((StoreError, OSError)) as refused:
            broker.open()
        assert str(path) in str(refused.value), refused.value
        assert path.is_symlink() or not stat.S_ISREG(path.lstat().st_mode), "what was planted is still there"
        assert before == {entry: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in outside.iterdir()}
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)
        broker.open()
        assert broker.state()["messages"] == messages


@pytest.mark.parametrize(
    "directory", ["consumequeue/Secret", "consumequeue/Secret/0", "consumequeue/Other", "commitlog/x", "index/x"]
)
def test_attack_34_a_directory_within_the_store_that_is_a_link(tmp_path: Path, directory: str) -> None:
    outside = tmp_path / "outside"
    with two_topics(tmp_path) as broker:
        messages = broker.state()["messages"]
        assert broker.node.close()
        path = broker.root / directory
        if path.exists():
            path.rename(outside)
        else:
            outside.mkdir()
        path.symlink_to(outside)
        with pytest.raises(StoreError, match="symbolic link") as refused:
            broker.open()
        assert str(path) in str(refused.value)
        path.unlink()
        if any(outside.iterdir()):
            outside.rename(path)
        broker.open()
        assert broker.state()["messages"] == messages


def test_attack_34_a_configured_directory_may_be_a_link(tmp_path: Path) -> None:
    """As a whole: the store's own directory and that of the commit log, on another disk for instance."""
    (tmp_path / "other disk").mkdir()
    (tmp_path / "other log").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / "other log")
    (tmp_path / "store").symlink_to(tmp_path / "other disk")
    with siege(tmp_path, storePathCommitLog=tmp_path / "log") as broker:
        broker.topic("T")
        assert broker.connect().ask(send("T"), b"x").code == 0
    assert (tmp_path / "other log" / ("0" * 20)).exists()
    assert (tmp_path / "other disk" / "consumequeue").exists()
