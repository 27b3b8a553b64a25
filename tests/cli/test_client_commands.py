"""`rmq send`, `rmq topic`, `rmq tail` against a cluster: what they print, and what they say when something is wrong."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess

import pytest

from tests.support import rmq
from tests.support.client_shell import Shell
from tests.support.talk import PATIENCE_S
from tests.support.terminal import CTRL_C, Terminal

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
    assert binary["body_base64"] == "/wA="
    assert not {"body", "bodyNote"} & binary.keys()
    assert any(line.endswith("  base64:/wA=") for line in shell.good("tail", "lines", "--from", "start", "--no-follow"))


def test_filters_and_times(shell: Shell) -> None:
    for tag in "ABC":
        shell.good("send", "filters", tag, "-t", tag, "-p", f"price={ord(tag)}", "--queue", "broker-a:0")
    start = ("tail", "filters", "--from", "start", "--no-follow")
    assert [line[-1] for line in shell.good(*start, "-t", "A || C")] == ["A", "C"]
    assert [line[-1] for line in shell.good(*start, "--sql", "price > 65")] == ["B", "C"]
    assert [line[-1] for line in shell.good("tail", "filters", "--from", "-1h", "--no-follow")] == ["A", "B", "C"]
    assert shell.good("tail", "filters", "--no-follow") == []


@pytest.mark.parametrize("command", [("tail",), ("consume",), ("consume", "-g", "broken-g")], ids=" ".join)
@pytest.mark.parametrize("expression", ["price >", "colour ="])
def test_an_expression_that_is_broken_selects_nothing(shell: Shell, command: tuple[str, ...], expression: str) -> None:
    """Of what the broker's parser says it is the first line of a dozen, which ends it."""
    shell.good("send", "broken", "x")
    name, *group = command
    ran = shell.run(name, "broken", *group, "--from", "start", "-c", "1", "--sql", expression)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "23 (SUBSCRIPTION_PARSE_FAILED)" in ran.stderr
    assert ran.stderr.endswith(".\n")
    assert ran.stderr.count("\n") == 1
    assert "\\n" not in ran.stderr


def test_what_would_command_a_terminal_is_escaped(shell: Shell) -> None:
    """A message is a line whatever its producer sent, and no character of it is lost."""
    body = "a\x1b]0;owned\a\x1b[2J\x1b[31mred\rforged line\nsecond\u202eback"
    shell.good("send", "escapes", body, "-t", "t\x1b[2J")
    escaped = r"  t\x1b[2J  a\x1b]0;owned\x07\x1b[2J\x1b[31mred\rforged line\nsecond\u202eback"
    for command in (("tail",), ("consume",), ("consume", "-g", "escapes-g")):
        name, *group = command
        [line] = shell.good(name, "escapes", *group, "--from", "start", "-c", "1")
        assert line.endswith(escaped)
    [row] = map(json.loads, shell.good("tail", "escapes", "--from", "start", "-c", "1", "--json"))
    assert (row["body"], row["tags"]) == (body, "t\x1b[2J")


def test_ctrl_c_at_a_question_ends_it_without_a_word(shell: Shell) -> None:
    shell.good("topic", "create", "asked")
    question = "Delete asked with all its messages? [y/N]: "
    with Terminal(
        rmq.command("topic", "delete", "asked"), lines=5, columns=80, environment=shell.environment, home=shell.home
    ) as terminal:
        terminal.until(lambda rows: rows[-1] == question)
        for _ in range(int(PATIENCE_S)):  # the interpreter misses one that comes just before it reads
            terminal.type(CTRL_C)
            with contextlib.suppress(subprocess.TimeoutExpired):
                terminal.process.wait(1)
                break
        assert terminal.end() in (130, -signal.SIGINT)  # a second one may meet it at its end: both are 130 to a shell
    assert terminal.written.decode().replace("^C", "").rstrip() == question.rstrip()
    assert "asked" in shell.good("topic", "list")


def test_a_question_that_nobody_answers_names_the_option(shell: Shell) -> None:
    shell.good("topic", "create", "unanswered")
    ran = shell.redirected("</dev/null", "topic", "delete", "unanswered")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "rmq: nobody answers on standard input: to delete without being asked, say --yes"
    assert shell.run("topic", "delete", "unanswered", typed=b"n\n").returncode == 1
    assert "unanswered" in shell.good("topic", "list")
    assert shell.run("topic", "delete", "unanswered", typed=b"y\n").returncode == 0


def test_a_topic_that_is_read_only_says_so(shell: Shell) -> None:
    shell.good("topic", "create", "read-only", "--perm", "R")
    assert shell.bad("send", "read-only", "x") == "rmq: read-only has no queue that may be written: it is read only\n"


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
        (("send", "t", "x", "--access-key", "me"), 2, "--secret-key"),
        (("consume", "t", "-g", "g", "--secret-key", "me"), 2, "--access-key"),
        (("send", "t", ""), 2, "the body is empty"),
        (("topic", "create", "t", "-q", "0"), 2, "not in the range"),
        (("tail", "t", "--sql", ""), 2, "an empty expression"),
        (("consume", "t", "--sql", " "), 2, "an empty expression"),
        (("tail", "t", "--sql", "a > 1", "-t", "A"), 2, "--sql or --tags"),
        (("consume", "t", "-g", "g", "--sql", "a > 1", "-t", "*"), 2, "--sql or --tags"),
        (("tail", "never-made", "--sql", "a > 1"), 1, "no name server knows the topic never-made"),
        (("tail", "a b", "--sql", "a > 1"), 1, "illegal characters"),
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
