"""`rmq consume` against our broker: with a group and without, what a command or a function fails, how it ends."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from rmq_wire.implied.delay_levels import FAST_DELAY_LEVELS
from rmq_wire.sys_flag import COMPRESSED
from tests.support.client_shell import Shell
from tests.support.process import until
from tests.support.requests import send
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S, Talk

PROPERTIES = {"enablePropertyFilter": "true", "messageDelayLevel": FAST_DELAY_LEVELS}


def fill(shell: Shell, topic: str, count: int, *options: str) -> list[str]:
    lines = [f"{topic}-{number}" for number in range(count)]
    shell.good("topic", "create", topic, "-q", "4")
    shell.good("send", topic, "--lines", *options, typed="\n".join(lines).encode())
    return lines


def bodies(rows: list[str]) -> list[str]:
    return [json.loads(row)["body"] for row in rows]


def test_without_a_group_everything_is_there_each_time(shell: Shell) -> None:
    sent = fill(shell, "plain", 12, "--order-key", "o", "-t", "A")
    read = ("consume", "plain", "--no-follow", "--json")
    for _ in range(2):
        assert bodies(shell.good(*read, "--from", "start")) == sent
    assert bodies(shell.good(*read, "--offset", "10")) == sent[10:]
    assert bodies(shell.good(*read, "--from", "-1h", "-c", "3")) == sent[:3]
    assert shell.good(*read) == []
    assert shell.good(*read, "--from", "start", "-t", "B") == []


def test_a_group_goes_on_where_it_ended(shell: Shell) -> None:
    sent = fill(shell, "grouped", 40, "-t", "A", "-p", "price=7")
    fill(shell, "grouped", 3, "-t", "B")
    consume = ("consume", "grouped", "-g", "grouped-g", "--from", "start", "--json", "-t", "A")
    seen = set(bodies(shell.good(*consume, "-c", "15")))
    assert len(seen) == 15
    with shell.running(*consume) as running:
        assert running.stdout is not None
        while seen != set(sent):
            seen |= set(bodies([running.stdout.readline().decode()]))
    selected = bodies(
        shell.good("consume", "grouped", "-g", "sql-g", "--from", "start", "--sql", "price > 6", "-c", "40", "--json")
    )
    assert sorted(selected) == sorted(sent)


def test_in_order(shell: Shell) -> None:
    sent = fill(shell, "ordered", 10, "--order-key", "o")
    consume = ("consume", "ordered", "-g", "ordered-g", "--from", "start", "--json", "--orderly")
    assert bodies(shell.good(*consume, "-c", "4")) == sent[:4]
    assert bodies(shell.good(*consume, "-c", "6")) == sent[4:]


def test_a_command_gets_each_message_and_what_it_fails_comes_again(shell: Shell) -> None:
    sent = fill(shell, "commands", 5)
    script = (
        'body=$(cat); echo "$RMQ_TOPIC $RMQ_RECONSUME_TIMES $body"; [ "$body" != commands-3 ] || [ "$RMQ_RECONSUME_TIMES" = 2 ]'
    )
    said = shell.good("consume", "commands", "-g", "commands-g", "--from", "start", "--exec", script, "-c", "7")
    assert sorted(said) == sorted([f"commands 0 {one}" for one in sent] + ["commands 1 commands-3", "commands 2 commands-3"])


@pytest.mark.parametrize("work", ["--exec", "--call"])
def test_a_body_that_cannot_be_unpacked_is_given_to_nobody(ours: Subject, shell: Shell, work: str) -> None:
    """A command would take no input for an empty body; that it was tried counts, so that it ends: with 1, it is not done."""
    topic = f"spoilt{work}"
    shell.good("topic", "create", topic, "-q", "1")
    with Talk(ours.address) as talk:
        assert talk.ask(send(topic, sys_flag=COMPRESSED), b"not packed").code == 0
    (shell.home / "spoilt.py").write_text("def take(message):\n    body = message.body\n    open('ran', 'wb').write(body)\n")
    what = "echo > ran" if work == "--exec" else "spoilt:take"
    ran = shell.run("consume", topic, "-g", f"{topic}-g", "--from", "start", "-c", "1", work, what)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"rmq: ReceivedMessage({topic}, ")
    assert ran.stderr.count("\n") == 1
    assert not (shell.home / "ran").exists()


def test_a_function_likewise(shell: Shell) -> None:
    fill(shell, "functions", 3)
    (shell.home / "mine.py").write_text(
        "def take(message):\n    print(f'{message.reconsume_times} {message.body.decode()}\\n', end='', flush=True)\n"
        "    if message.body.endswith(b'1') and not message.reconsume_times: raise ValueError('not yet')\n"
    )
    ran = shell.run("consume", "functions", "-g", "functions-g", "--from", "start", "--call", "mine:take", "-c", "4")
    assert ran.returncode == 0
    assert sorted(ran.stdout.splitlines()) == ["0 functions-0", "0 functions-1", "0 functions-2", "1 functions-1"]
    assert re.fullmatch(r"rmq: ReceivedMessage\(functions, .*\) is not done: ValueError: not yet\n", ran.stderr)


def test_a_function_that_exits_has_failed_like_any_other(shell: Shell) -> None:
    """The message was tried, so that it counts."""
    fill(shell, "exits", 1)
    (shell.home / "exits.py").write_text("def take(message):\n    raise SystemExit(3)\n")
    ran = shell.run("consume", "exits", "-g", "exits-g", "--from", "start", "--call", "exits:take", "-c", "1")
    assert ran.returncode == 1
    assert ran.stderr.startswith("rmq: ReceivedMessage(exits, ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("orderly", [(), ("--orderly",)], ids=["concurrently", "orderly"])
def test_with_a_count_the_status_is_1_where_a_message_is_not_done(shell: Shell, orderly: tuple[str, ...]) -> None:
    """One that failed and was done later is done: in order, the first of three is tried twice."""
    topic = f"undone-{len(orderly)}"
    shell.good("topic", "create", topic, "-q", "1")
    shell.good("send", topic, "--lines", typed=b"0\n1\n2\n")
    consume = ("consume", topic, "--from", "start", *orderly)
    ran = shell.run(*consume, "-g", f"{topic}-failing", "-c", "2", "--exec", "exit 7")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch(r"(rmq: ReceivedMessage\(.*\) is not done: the command ended with 7\n){2}", ran.stderr)
    later = '[ "$RMQ_RECONSUME_TIMES" != 0 ] || [ "$(cat)" != 0 ]'
    ran = shell.run(*consume, "-g", f"{topic}-later", "-c", "4", "--exec", later)
    assert ran.returncode == 0
    assert ran.stderr.count("is not done") == 1


def test_a_function_that_returns_false_says_so(shell: Shell) -> None:
    fill(shell, "refusing", 1)
    (shell.home / "refusing.py").write_text("def take(message):\n    return False\n")
    ran = shell.run("consume", "refusing", "-g", "refusing-g", "--from", "start", "--call", "refusing:take", "-c", "1")
    assert ran.returncode == 1
    assert re.fullmatch(r"rmq: ReceivedMessage\(refusing, .*\) is not done: refusing:take returned False\n", ran.stderr)


def test_ctrl_c_finishes_what_is_at_work_and_keeps_progress(shell: Shell) -> None:
    fill(shell, "ends", 20)
    go = shell.home / "go"
    script = f"echo at work; until [ -e {go} ]; do sleep 0.02; done; echo done"
    consume = ("consume", "ends", "-g", "ends-g", "--from", "start")
    with shell.running(*consume, "--exec", script, "--threads", "2") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert [running.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
        running.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.3)
        go.touch()
        assert running.wait(PATIENCE_S) == 130
        assert running.stdout.read().splitlines() == [b"done"] * 2
        assert running.stderr.read() == b""
    assert len(shell.good(*consume, "-c", "18", "--json")) == 18


def test_a_second_ctrl_c_does_not_wait(shell: Shell) -> None:
    fill(shell, "twice", 1)
    with shell.running("consume", "twice", "-g", "twice-g", "--from", "start", "--exec", "echo $$; exec sleep 600") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        child = int(running.stdout.readline())
        for seconds in (0.3, 20, 20, 20):  # two that come at once count as one
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(seconds)
        assert running.wait(PATIENCE_S) == 130
        assert running.stderr.read() == b""
    until(lambda: not Path(f"/proc/{child}").exists(), "the command is ended, too", seconds=PATIENCE_S)


@pytest.mark.parametrize("group", [(), ("-g", "head-g")])
@pytest.mark.parametrize("more", [False, True])
def test_it_ends_when_nobody_reads_what_it_prints(shell: Shell, group: tuple[str, ...], more: bool) -> None:
    topic = f"head-{len(group)}-{more}"
    fill(shell, topic, 50)
    with shell.running("consume", topic, *group, "--from", "start") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for _ in range(50):
            running.stdout.readline()
        running.stdout.close()
        if more:
            shell.good("send", topic, "one more")
        assert running.wait(PATIENCE_S) == 141
        assert running.stderr.read() == b""
    if group and more:
        assert bodies(shell.good("consume", topic, *group, "-c", "1", "--json")) == ["one more"], "it was not done"


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = (", "SyntaxError: "), ("raise RuntimeError('no\\nmore')", "RuntimeError: no\n"), ("exit(0)", "SystemExit: 0\n")],
)
def test_a_module_that_cannot_be_imported(shell: Shell, text: str, said: str) -> None:
    (shell.home / "spoilt_module.py").write_text(text)
    assert said in shell.bad("consume", "t", "-g", "g", "--call", "spoilt_module:take")


def test_a_place_for_progress_that_is_none(shell: Shell) -> None:
    fill(shell, "homeless", 1)
    shell.environment["HOME"] = "/dev/null"
    assert "/dev/null" in shell.bad("consume", "homeless", "-g", "homeless-g", "--broadcast")


def test_a_profile_finds_how_many_threads_are_best(shell: Shell) -> None:
    fill(shell, "profiled", 600)
    (shell.home / "work.py").write_text(
        "import threading\nwait = threading.Event().wait\n\ndef take(message):\n    wait(0.005)\n"
    )
    consume = ("consume", "profiled", "-g", "profiled-g", "--from", "start")
    ran = shell.run(*consume, "--call", "work:take", "--profile", "--step", "0.1")
    assert ran.returncode == 0
    heading, first, figure, *_, why, best = ran.stderr.splitlines()
    assert heading.split() == ["threads", "msg/s", "T1", "ms/msg", "T2", "ms/msg", "busy"]
    threads, _, t1_ms, t2_ms, _ = first.split()
    assert threads == "1"
    assert float(t2_ms) > 4 > float(t1_ms)
    assert figure.startswith("C x (T1 + T2) / T1 = 1 x (")
    assert re.match(r"best: --threads \d+, ", best), why


def test_a_profile_in_order_tries_as_many_threads_as_there_are_queues(shell: Shell) -> None:
    fill(shell, "profiled-o", 600)
    (shell.home / "ordered_work.py").write_text(
        "import threading\nwait = threading.Event().wait\n\ndef take(message):\n    wait(0.005)\n"
    )
    consume = ("consume", "profiled-o", "-g", "profiled-o-g", "--from", "start", "--orderly")
    ran = shell.run(*consume, "--call", "ordered_work:take", "--profile", "--step", "0.1")
    assert ran.returncode == 0, ran.stderr
    *_, why, best = ran.stderr.splitlines()
    tried = [int(line.split()[0]) for line in ran.stderr.splitlines()[1:-2] if line.split()[0].isdecimal()]
    assert tried[0] == 1
    assert max(tried) <= 4, "the topic has four queues"
    assert re.match(r"best: --threads \d+, ", best), why


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--orderly",), 2, "need a group"),
        (("--profile",), 2, "need a group"),
        (("-g", "g", "--step", "nan"), 2, "is no number"),
        (("-g", "g", "--no-follow"), 2, "go without a group"),
        (("-g", "g", "--exec", "x", "--call", "x:y"), 2, "not both"),
        (("-g", "g", "--call", "x"), 2, "MODULE:NAME"),
        (("-g", "g", "--call", "no_such_module:y"), 1, "No module named"),
        (("-g", "a b"), 1, "illegal characters"),
        (("-g", "g", "-n", "127.0.0.1:1"), 1, "no name server answers: 127.0.0.1:1: Connection refused"),
        (("-g", "g"), 1, "no name server knows the topic never-made"),
        (("-c", "1"), 1, "no name server knows the topic never-made"),
        (("--from", "soon"), 2, "is no time"),
        (("--tags", " "), 2, "an empty expression wants nothing"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(shell: Shell, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in shell.bad("consume", "never-made", *arguments, status=status)
