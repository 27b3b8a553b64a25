"""`rmq send`, `rmq topic`, `rmq tail` against a cluster: what they print, and what they say when something is wrong."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.client_shell import Shell
from tests.support.talk import PATIENCE_S

PROPERTIES = {"enablePropertyFilter": "true"}


def test_a_message_there_and_back(shell: Shell) -> None:
    [line] = shell.good("send", "back", "hällo", "-t", "A", "-k", "k1", "-k", "k2", "-p", "x=1=2")
    message_id, broker, _, queue, _, offset = line.split()
    [row] = map(json.loads, shell.good("tail", "back", "--from", "start", "--no-follow", "--json"))
    assert (row["msgId"], row["brokerName"], row["queueId"]) == (message_id, broker, int(queue))
    assert (row["queueOffset"], row["body"], row["tags"], row["keys"]) == (int(offset), "hällo", "A", ["k1", "k2"])
    assert row["properties"]["x"] == "1=2"
    [shown] = shell.good("tail", "back", "--from", "start", "-c", "1")
    assert shown.endswith(f"{broker}/{queue}@0  A  hällo")


def test_lines_files_and_order(shell: Shell) -> None:
    lines = [f"line {number}" for number in range(20)]
    sent = shell.good("send", "lines", "--lines", "--order-key", "o", "--json", typed="\n".join(lines).encode())
    assert len({json.loads(one)["queueId"] for one in sent}) == 1
    rows = [json.loads(one) for one in shell.good("tail", "lines", "--from", "start", "--json", "-c", "20")]
    assert [row["body"] for row in rows] == lines
    file = shell.home / "body.bin"
    file.write_bytes(b"\xff\x00")
    place = json.loads(shell.good("send", "lines", "-f", str(file), "--json")[0])
    found = [json.loads(one) for one in shell.good("tail", "lines", "--from", "start", "--json", "--no-follow")]
    [binary] = [row for row in found if row["msgId"] == place["msgId"]]
    assert binary["bodyNote"] == "base64:/wA="
    assert "body" not in binary


def test_filters_and_times(shell: Shell) -> None:
    for tag in "ABC":
        shell.good("send", "filters", tag, "-t", tag, "-p", f"price={ord(tag)}", "--queue", "broker-a:0")
    start = ("tail", "filters", "--from", "start", "--no-follow")
    assert [line[-1] for line in shell.good(*start, "-t", "A || C")] == ["A", "C"]
    assert [line[-1] for line in shell.good(*start, "--sql", "price > 65")] == ["B", "C"]
    assert [line[-1] for line in shell.good("tail", "filters", "--from", "-1h", "--no-follow")] == ["A", "B", "C"]
    assert shell.good("tail", "filters", "--no-follow") == []


def test_a_delayed_message_names_its_handle(shell: Shell) -> None:
    [line] = shell.good("send", "delays", "later", "--delay", "10m", "--json")
    assert json.loads(line)["recallHandle"]
    assert shell.good("tail", "delays", "--from", "start", "--no-follow") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_tail_follows_until_a_signal(shell: Shell, number: signal.Signals) -> None:
    topic = f"follow-{number}"
    shell.good("topic", "create", topic, "-q", "2")
    with shell.running("tail", topic, "--from", "start") as following:
        assert following.stdout is not None
        assert following.stderr is not None
        for body in ("m0", "m1"):
            shell.good("send", topic, body)
            assert following.stdout.readline().endswith(f"{body}\n".encode())
        following.send_signal(number)
        assert following.wait(PATIENCE_S) == 128 + number
        assert following.stderr.read() == b""


def test_a_name_space_has_its_own_topics(shell: Shell) -> None:
    for namespace in ("", "mine", "other"):
        shell.good("topic", "create", f"spaced-{namespace}", "--namespace", namespace)
    shell.good("topic", "create", "%RETRY%mine%spaced-group")
    assert shell.good("topic", "list", "--namespace", "mine") == ["spaced-mine"]
    assert {"spaced-", "mine%spaced-mine", "other%spaced-other"} <= set(shell.good("topic", "list"))
    listed = set(shell.good("topic", "list", "--system", "--namespace", "mine"))
    assert {"spaced-mine", "%RETRY%spaced-group", "TBW102"} <= listed
    assert not {"spaced-", "other%spaced-other", "broker-a"} & listed


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("send", "t"), 2, "one body"),
        (("send", "t", "x", "--lines"), 2, "one body"),
        (("send", "t", "x", "-p", "novalue"), 2, "NAME=VALUE"),
        (("send", "t", "x", "--delay", "soon"), 2, "a level (1 to 18) or a time"),
        (("send", "t", "x", "--queue", "broker-a"), 2, "BROKER:ID"),
        (("send", "a b", "x"), 1, "illegal characters"),
        (("send", "t", "x", "-p", "TAGS=1"), 1, "RocketMQ uses this name"),
        (("send", "t", "-f", "missing"), 1, "No such file"),
        (("send", "t", "x", "--access-key", "me"), 1, "--secret-key"),
        (("send", "t", "x", "-n", "127.0.0.1:1"), 1, "no name server answers: 127.0.0.1:1: Connection refused"),
        (("send", "t", "x", "-n", "nowhere"), 1, "HOST:PORT"),
        (("tail", "never-made", "-c", "1"), 1, "no name server knows the topic never-made"),
        (("tail", "t", "--from", "soon"), 2, "is no time"),
        (("topic", "create", "t", "-c", "Nowhere"), 1, "there is no cluster Nowhere: DefaultCluster"),
        (("topic", "create", "t", "-b", "nobody"), 1, "master of the broker nobody"),
        (("topic", "delete", "never-made", "--yes"), 1, "no name server knows the topic never-made"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(shell: Shell, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in shell.bad(*arguments, status=status)
