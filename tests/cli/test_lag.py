"""`rmq lag` against our broker: what waits and since when, who has it, what is stuck, when it ends with 1."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from tests.support import rmq
from tests.support.client_shell import Shell
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S
from tests.support.terminal import CTRL_C, Terminal


def fill(shell: Shell, topic: str, count: int, queues: int = 2) -> None:
    shell.good("topic", "create", topic, "-q", str(queues))
    shell.good("send", topic, "--lines", typed=b"\n".join(b"%d" % number for number in range(count)))


def once(shell: Shell, *options: str, status: int = 0) -> Any:
    ran = shell.run("lag", "--once", "--json", *options)
    assert ran.returncode == status, ran.stderr
    return json.loads(ran.stdout)


def test_what_waits_and_since_when(shell: Shell) -> None:
    fill(shell, "waits", 10)
    shell.good("consume", "waits", "-g", "waits-g", "--from", "start", "--orderly", "-c", "4")
    [group] = once(shell, "-g", "waits-g", "-t", "waits")["groups"]
    assert (group["group"], group["lag"], group["members"]) == ("waits-g", 6, [])
    assert sum(row["consumerOffset"] for row in group["queues"]) == 4
    assert all(0 <= row["delayMs"] < 3_600_000 for row in group["queues"] if row["lag"])
    assert group["delayMs"] == max(row["delayMs"] for row in group["queues"] if row["lag"])
    assert {row["owner"] for row in group["queues"]} == {None}
    table = shell.good("lag", "--once", "-g", "waits-g")
    assert table[0].startswith("waits-g: 6 behind, ")
    assert table[1].split() == ["topic", "broker", "queue", "lag", "delay", "consumed", "owner"]


def test_limits_end_it_with_1(shell: Shell) -> None:
    fill(shell, "limits", 5)
    shell.good("consume", "limits", "-g", "limits-g", "--from", "start", "-c", "1", "--orderly")
    assert once(shell, "-g", "limits-g", "--max-lag", "4", "--max-delay", "3600")["beyond"] == []
    assert once(shell, "-g", "limits-g", "--max-lag", "3", status=1)["beyond"] == ["limits-g is 4 messages behind, more than 3"]
    assert "waits for" in shell.bad("lag", "--once", "-g", "limits-g", "--max-delay", "0")


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["table", "json"])
def test_a_topic_that_no_group_has_is_said(shell: Shell, as_json: tuple[str, ...]) -> None:
    """A typo would never alarm: nobody is behind in what is not there."""
    fill(shell, "had", 1)
    shell.good("consume", "had", "-g", "had-g", "--from", "start", "-c", "1", "--orderly")
    shell.good("lag", "--once", "-t", "had", "--max-lag", "1", *as_json)
    said = shell.bad("lag", "--once", "-t", "tyop", "-t", "had", "-t", "also", "--max-lag", "1", *as_json)
    assert said == "rmq: no group that has consumed has a queue of also, tyop: nobody knows how far behind it is\n"
    said = shell.bad("lag", "--once", "-g", "had-g", "-t", "tyop", "-t", "had", *as_json)
    assert said == "rmq: none of these groups has a queue of tyop: nobody knows how far behind it is\n"


def test_owners_and_a_queue_that_is_stuck_on_its_head(shell: Shell) -> None:
    fill(shell, "stuck", 6, queues=1)
    work = "echo tried; exit 1"
    with shell.running("consume", "stuck", "-g", "stuck-g", "--from", "start", "--orderly", "--exec", work) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"tried\n"
        [group] = once(shell, "-g", "stuck-g", "-t", "stuck")["groups"]
        [row] = group["queues"]
        assert [row["owner"]] == group["members"]
        assert row["ordered"]
        assert row["stuckMs"] >= 2_000
        assert any("stuck on its head at 0" in line for line in shell.good("lag", "--once", "-g", "stuck-g"))
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_live_until_a_signal(shell: Shell, number: signal.Signals) -> None:
    topic, group = f"live-{number}", f"live-{number}-g"
    fill(shell, topic, 3)
    shell.good("consume", topic, "-g", group, "--from", "start", "--orderly", "-c", "1")
    with shell.running("lag", "-g", group, "--json", "--interval", "0.1") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["lag"] == 2
        shell.good("send", topic, "one more")
        while json.loads(running.stdout.readline())["lag"] != 3:
            pass
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == 128 + number
        assert running.stderr.read() == b""


def test_live_over_a_restart(shell: Shell, ours: Subject) -> None:
    fill(shell, "restart", 3)
    shell.good("consume", "restart", "-g", "restart-g", "--from", "start", "--orderly", "-c", "1")
    with shell.running("lag", "-g", "restart-g", "--json", "--interval", "0.1") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["lag"] == 2
        ours.server.stop()
        try:
            assert running.stderr.readline().startswith(b"rmq: ")
        finally:
            ours.server.start()
        began_ms = time.time_ns() // 1_000_000
        while (look := json.loads(running.stdout.readline()))["time"] < began_ms:
            pass
        assert look["lag"] == 2
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130


def test_all_groups_and_many_queues(shell: Shell) -> None:
    fill(shell, "wide", 1, queues=1_000)
    shell.good("consume", "wide", "-g", "wide-g", "--from", "start", "--orderly", "-c", "1")
    found = once(shell)
    wide = next(group for group in found["groups"] if group["group"] == "wide-g")
    assert sum(row["topic"] == "wide" for row in wide["queues"]) == 1_000
    assert "TOOLS_CONSUMER" not in {group["group"] for group in found["groups"]}


def test_a_name_space_has_its_own_groups(shell: Shell) -> None:
    """A group of another one, or of none, is no group of it that were not behind."""
    for namespace in ("", "mine", "other"):
        within = ("--namespace", namespace)
        shell.good("topic", "create", "spaced", "-q", "1", *within)
        shell.good("send", "spaced", "--lines", *within, typed=b"1\n2\n3\n")
        group = f"spaced-{namespace}"
        shell.good("consume", "spaced", "-g", group, "--from", "start", "--orderly", "-c", "1", *within)
    assert [(group["group"], group["lag"]) for group in once(shell, "--namespace", "mine")["groups"]] == [("spaced-mine", 2)]
    assert {"spaced-", "mine%spaced-mine", "other%spaced-other"} <= {group["group"] for group in once(shell)["groups"]}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--once", "-g", "never-seen"), 1, "no broker knows progress or members of never-seen"),
        (("--once", "-g", "a b"), 1, "illegal characters"),
        (("--max-lag", "3"), 2, "go with --once"),
        (("--once", "--max-delay", "nan"), 2, "'nan' is no number"),
        (("--interval", "nan"), 2, "'nan' is no number"),
        (("--once", "-n", "127.0.0.1:1"), 1, "no name server answers: 127.0.0.1:1: Connection refused"),
        (("-n", "127.0.0.1:1"), 1, "no name server answers: 127.0.0.1:1: Connection refused"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(shell: Shell, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in shell.bad("lag", *arguments, status=status)


def test_live_in_a_window(shell: Shell) -> None:
    """Each look in the place of the last one, no line wider or lower than the window, which may be made larger."""
    fill(shell, "a-window-of-some-lines", 30, queues=12)
    shell.good("consume", "a-window-of-some-lines", "-g", "window-g", "--from", "start", "--orderly", "-c", "6")
    command = rmq.command("lag", "-g", "window-g", "-t", "a-window-of-some-lines", "--interval", "0.1")
    with Terminal(command, lines=6, columns=50, environment=shell.environment, home=shell.home) as terminal:
        rows = terminal.until(lambda seen: len(seen) == 6 and seen[-1] == "")
        assert rows[0].startswith("window-g: 24 behind, ")
        assert rows[1].split()[:3] == ["topic", "broker", "queue"]
        assert rows[4].startswith("… 10 lines more: a larger window, --group,")
        assert all(len(row) <= 50 for row in rows)
        assert rows[2].endswith("…"), "its owner has no room"
        shell.good("send", "a-window-of-some-lines", "one more")
        terminal.until(lambda seen: seen[0].startswith("window-g: 25 behind, "))
        terminal.resize(24, 120)
        rows = terminal.until(lambda seen: len(seen) == 15 and seen[-1] == "")
        assert [row.split()[-1] for row in rows[2:14]] == ["nobody"] * 12
        assert sum(int(row.split()[3]) for row in rows[2:14]) == 25
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert b"Traceback" not in terminal.written


def test_live_says_what_is_not_there_until_it_is(shell: Shell) -> None:
    fill(shell, "comes", 1, queues=1)
    with shell.running("lag", "-g", "comes-g", "-t", "comes", "--interval", "0.1") as running:
        assert running.stdout is not None
        missing = b"no broker knows progress of these topics or members of comes-g\n"
        assert [running.stdout.readline() for _ in range(2)] == [missing, b"comes-g: 0 behind, 0 members\n"]
        shell.good("consume", "comes", "-g", "comes-g", "--from", "start", "-c", "1", "--orderly")
        assert any(line.split()[:1] == [b"topic"] for line in running.stdout)
        assert running.stdout.readline().split()[0] == b"comes"
        assert running.stdout.readline().startswith(b"comes-g: 0 behind, "), "nothing is missing any more"
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130


def test_once_on_a_terminal_is_the_whole_table_and_clears_nothing(shell: Shell) -> None:
    fill(shell, "once-window", 8, queues=8)
    shell.good("consume", "once-window", "-g", "once-window-g", "--from", "start", "--orderly", "-c", "1")
    command = rmq.command("lag", "--once", "-g", "once-window-g", "-t", "once-window")
    with Terminal(command, lines=4, columns=40, environment=shell.environment, home=shell.home) as terminal:
        assert terminal.end() == 0
    lines = terminal.written.decode().split("\r\n")
    assert len(lines) == 11
    assert "\x1b" not in terminal.written.decode()
    assert all(line.endswith("nobody") for line in lines[2:10])
