"""When two values mean the same, what a match teaches, and how requests are put in another server's terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.captures.compare import findings
from conformance.captures.decoding import Said, decode_all
from conformance.captures.kinds import KINDS, UNDERSTOOD, Kind, Learned
from conformance.captures.recorder import Frame
from conformance.captures.translate import answer_here, request_here
from conformance.captures.turns import in_turn
from rmq_wire.codes import RequestCode as Code
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.encoding import Form, encode_request, encode_response
from tests.support.golden import FRAME_FILES, GOLDEN

T = "1795000000000"
ID_A, ID_B, ID_C = (f"7F00000100002A9F000000000000{n:04X}" for n in (1, 2, 3))
QUEUE = ("t", "1")


def said(data: bytes, to_server: bool = True) -> Said:
    [one] = decode_all([Frame(0, to_server, data)])
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("kind", "pairs", "problem"),
    [
        (Kind.TIME, [(T, "1800000000000")], False),
        (Kind.TIME, [("0", "0"), ("-1", "-1")], False),
        (Kind.TIME, [("0", T)], True),
        (Kind.TIME, [(T, "17")], True),
        (Kind.TIME, [("-1", T)], True),
        (Kind.TIME, [(T, "soon")], True),
        (Kind.MESSAGE_ID, [(ID_A, ID_B), (ID_B, ID_A), (ID_A, ID_B)], False),
        (Kind.MESSAGE_ID, [(ID_A, ID_B), (ID_A, ID_C)], True),
        (Kind.MESSAGE_ID, [(ID_A, ID_C), (ID_B, ID_C)], True),
        (Kind.MESSAGE_ID, [(ID_A, ID_A + ID_A[:24])], True),
        (Kind.MESSAGE_ID, [(f"{ID_A},{ID_B}", ID_A)], True),
        (Kind.PHYSICAL_OFFSET, [("0", "0"), ("10", "70"), ("20", "90"), ("10", "70")], False),
        (Kind.PHYSICAL_OFFSET, [("10", "70"), ("20", "70")], True),
        (Kind.QUEUE_OFFSET, [("0", "5"), ("2", "7"), ("-1", "-1")], False),
        (Kind.QUEUE_OFFSET, [("0", "5"), ("2", "8")], True),
        (Kind.ADDRESS, [("1.2.3.4:5", "5.6.7.8:9"), ("/1.2.3.4:5", "/5.6.7.8:9")], False),
        (Kind.ADDRESS, [("1.2.3.4:5", "/5.6.7.8:9")], True),
        (Kind.ADDRESS, [("10.0.0.1:1", "10.0.0.3:3")], True),
        (Kind.COUNTER, [("3", "900"), ("0", "1")], False),
        (Kind.COUNTER, [("3", "-1")], True),
        (Kind.FIGURE, [("0.0", "17.5")], False),
        (Kind.HANDLE, [("abc", "def"), ("abc", "xyz")], True),
        (Kind.HANDLE, [("abc", "")], True),
        (Kind.PLACE, [("/somewhere/store", "C:")], False),
    ],
)
def test_kinds(kind: Kind, pairs: list[tuple[str, str]], problem: bool) -> None:
    learned = Learned({"10.0.0.1:1": "10.0.0.2:2"})
    found = [learned.problem(kind, old, new, QUEUE) for old, new in pairs]
    assert [one is not None for one in found] == [False] * (len(found) - 1) + [problem]


@given(st.sampled_from(Kind), st.text(max_size=12) | st.integers(-5, 10**14).map(str) | st.sampled_from([ID_A, T, "1.2.3.4:5"]))
@settings(deadline=None)
def test_a_value_is_no_different_from_itself(kind: Kind, value: str) -> None:
    assert Learned().problem(kind, value, value, QUEUE) is None


@pytest.mark.parametrize(("old", "new"), [(1, "1"), (None, 1), (1, [1]), (True, 1), ({}, 1)])
def test_another_type_is_a_difference(old: Any, new: Any) -> None:
    assert Learned().problem(Kind.COUNTER, old, new) is not None


def test_each_name_has_one_kind() -> None:
    assert len(KINDS) == sum(len(row.names) for row in UNDERSTOOD)


def answer(
    code: int = 0, *, remark: str | None = None, ext: dict[str, str] | None = None, body: bytes = b"", asked: int = 17
) -> Said:
    made = encode_response(code, 1, form=Form.JSON, remark=remark, ext=ext, body=body)
    frames = [
        Frame(0, True, encode_request(asked, opaque=1)),
        Frame(0, False, made if isinstance(made, bytes) else b"".join(made)),
    ]
    _, one = decode_all(frames)
    assert one is not None
    return one


def paths(old: Said, new: Said, learned: Learned | None = None) -> list[str]:
    return [finding.path for finding in findings(old, new, learned or Learned(), None)]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("took 12ms", "took 7ms", True),
        ("queue 12", "queue 7", False),
        ("at 1.2.3.4:5", "at 5.6.7.8:9", True),
        (f"no message {ID_A}", f"no message {ID_B}", True),
        ("no topic t", "no topic T", False),
    ],
)
def test_remarks(old: str, new: str, same: bool) -> None:
    learned = Learned({"1.2.3.4:5": "5.6.7.8:9"})
    assert paths(answer(1, remark=old), answer(1, remark=new), learned) == ([] if same else ["remark"])


def test_sets_have_no_order_and_lists_have() -> None:
    sets = [answer(body=b'{"topicList":%b}' % names, asked=206) for names in (b'["a","b"]', b'["b","a"]', b'["b","c"]')]
    assert paths(sets[0], sets[1]) == []
    assert paths(sets[0], sets[2]) == ["body.topicList[a]", "body.topicList[c]"]
    lists = [answer(body=b'{"anything":%b}' % names, asked=206) for names in (b"[1,2]", b"[2,1]", b"[1]")]
    assert paths(lists[0], lists[1]) == ["body.anything[0]", "body.anything[1]"]
    assert paths(lists[0], lists[2]) == ["body.anything.length"]


def test_figures_count_by_their_names() -> None:
    before = answer(body=b'{"table":{"putTps":"0.0","commitLogDiskRatio_/a/b":"0.1"}}', asked=Code.GET_BROKER_RUNTIME_INFO)
    after = answer(body=b'{"table":{"putTps":"5.5 1","commitLogDiskRatio_/c":"0.9"}}', asked=Code.GET_BROKER_RUNTIME_INFO)
    fewer = answer(body=b'{"table":{"putTps":"0.0"}}', asked=Code.GET_BROKER_RUNTIME_INFO)
    assert paths(before, after) == []
    assert paths(before, fewer) == ["body.table.commitLogDiskRatio_PATH"]


def test_tables_of_queues_follow_the_brokers_name() -> None:
    rows = b'{"offsetTable":{{"brokerName":"%b","queueId":1,"topic":"t"}:{"maxOffset":%d,"minOffset":%d}}}'
    old = answer(body=rows % (b"broker-a", 4, 2), asked=Code.GET_TOPIC_STATS_INFO)
    learned = Learned({"broker-a": "broker-z"})
    assert paths(old, answer(body=rows % (b"broker-z", 14, 12), asked=Code.GET_TOPIC_STATS_INFO), learned) == []
    wrong = answer(body=rows % (b"broker-z", 14, 11), asked=Code.GET_TOPIC_STATS_INFO)
    assert paths(old, wrong, learned) == ["body.offsetTable.t@broker-z:1.minOffset"]


def here(data: bytes, learned: Learned) -> Command:
    [command] = Conversation().feed(request_here(data, said(data), learned))
    assert isinstance(command, Command)
    return command


@pytest.mark.parametrize("form", Form)
def test_requests_speak_of_what_the_other_server_has(form: Form) -> None:
    learned = Learned({"broker-a": "broker-z", "1.2.3.4:5": "5.6.7.8:9"}, 1000, (int(T), int(T)))
    assert learned.problem(Kind.QUEUE_OFFSET, 3, 13, QUEUE) is None
    assert learned.problem(Kind.PHYSICAL_OFFSET, 500, 900) is None
    assert learned.problem(Kind.MESSAGE_ID, ID_A, ID_B) is None

    def asked(code: int, **ext: str) -> dict[str, str]:
        return here(encode_request(code, opaque=7, ext=ext, form=form), learned).ext_map()

    pull = asked(Code.PULL_MESSAGE, topic="t", queueId="1", queueOffset="4", commitOffset="3", bname="broker-a", subVersion=T)
    assert (pull["queueOffset"], pull["commitOffset"], pull["bname"], pull["subVersion"]) == ("14", "13", "broker-z", T)
    assert asked(Code.VIEW_MESSAGE_BY_ID, offset="500") == {"offset": "900"}
    back = asked(Code.CONSUMER_SEND_MSG_BACK, offset="500", originMsgId=ID_A, group="g", delayLevel="0")
    assert (back["offset"], back["originMsgId"]) == ("900", ID_B)
    assert asked(Code.SEARCH_OFFSET_BY_TIMESTAMP, topic="t", queueId="1", timestamp=T)["timestamp"] == str(int(T) + 1000)
    assert asked(Code.SEARCH_OFFSET_BY_TIMESTAMP, topic="t", queueId="1", timestamp="1")["timestamp"] == "1"
    send = asked(Code.SEND_MESSAGE_V2, a="g", b="t", e="1", g=T, i=f"TIMER_DELIVER_MS\x01{T}\x02K\x01v\x02")
    assert (send["g"], send["i"]) == (str(int(T) + 1000), f"TIMER_DELIVER_MS\x01{int(T) + 1000}\x02K\x01v\x02")
    lock = encode_request(
        Code.LOCK_BATCH_MQ, None, b'{"mqSet":[{"brokerName":"broker-a","queueId":1,"topic":"t"}]}', opaque=1, form=form
    )
    assert bytes(here(lock, learned).body) == b'{"mqSet":[{"brokerName":"broker-z","queueId":1,"topic":"t"}]}'


def test_receipts_of_popped_messages_are_put_together_anew() -> None:
    learned = Learned({"broker-a": "broker-z"})
    assert learned.problem(Kind.TIME, int(T), int(T) + 5) is None
    assert learned.problem(Kind.QUEUE_OFFSET, 0, 10, QUEUE) is None
    ext = {"consumerGroup": "g", "topic": "t", "queueId": "1", "offset": "2", "extraInfo": f"2 {T} 60000 0 0 broker-a 1 2"}
    one = here(encode_request(Code.ACK_MESSAGE, opaque=1, ext=ext), learned).ext_map()
    assert (one["offset"], one["extraInfo"]) == ("12", f"12 {int(T) + 5} 60000 0 0 broker-z 1 12")


@pytest.mark.parametrize("stem", FRAME_FILES)
def test_untied_requests_keep_every_byte(stem: str) -> None:
    from conformance.captures.file import read

    for event in read(GOLDEN / f"{stem}.bin").events:
        assert isinstance(event, Frame)
        one = said(event.data, event.to_server)
        if one.what in ("request", "one-way"):
            assert request_here(event.data, one, Learned()) == event.data


def test_answers_of_a_client_take_the_number_of_the_question() -> None:
    made = encode_response(0, 5, form=Form.JSON, remark="r", ext={"a": "b"}, body=b"body")
    data = made if isinstance(made, bytes) else b"".join(made)
    [command] = Conversation().feed(answer_here(data, said(data), 99, Learned()))
    assert isinstance(command, Command)
    assert (command.opaque, command.remark, command.ext_map(), bytes(command.body)) == (99, "r", {"a": "b"}, b"body")


def conversation(*steps: tuple[str, int, int]) -> list[Said | None]:
    """`?` asks and `!` answers: (what, code, opaque)."""
    frames = []
    for what, code, opaque in steps:
        answered = encode_response(0, opaque, form=Form.JSON)
        assert isinstance(answered, bytes)
        frames.append(Frame(0, what == "?", encode_request(code, opaque=opaque) if what == "?" else answered))
    return decode_all(frames)


def test_questions_asked_together_take_turns() -> None:
    one = conversation(("?", 34, 1), ("?", 38, 2), ("!", 0, 2), ("!", 0, 1))
    turns = in_turn(one, ["s"] * 4)
    assert turns.after == {2: [0]}
    assert turns.late == {0}
    assert not in_turn(one, ["a", "b", "b", "a"]).late  # of two servers
    assert not in_turn(conversation(("?", 34, 1), ("!", 0, 1), ("?", 38, 2), ("!", 0, 2)), ["s"] * 4).late


def test_a_held_pull_is_asked_at_its_place() -> None:
    one = conversation(("?", Code.PULL_MESSAGE, 1), ("?", 34, 2), ("!", 0, 2), ("?", 10, 3), ("!", 0, 1), ("!", 0, 3))
    assert not in_turn(one, ["s"] * 6).late


def test_a_pull_is_asked_when_the_heartbeat_before_it_has_its_answer() -> None:
    pull = Code.PULL_MESSAGE
    one = conversation(("?", 34, 1), ("?", pull, 2), ("?", 10, 3), ("!", 0, 1), ("!", 0, 3), ("!", 0, 2))
    assert in_turn(one, ["s"] * 6).after == {3: [2, 1]}
    assert in_turn(one, ["a", "b", "a", "a", "a", "b"]).after == {3: [2]}  # of two servers
    answered_first = conversation(("?", 34, 1), ("?", pull, 2), ("!", 0, 2), ("!", 0, 1))
    assert not in_turn(answered_first, ["s"] * 4).late


def test_what_wakes_a_pull_is_not_asked_after_it() -> None:
    pull = Code.PULL_MESSAGE
    one = conversation(("?", pull, 1), ("?", 10, 2), ("?", 34, 3), ("!", 0, 1), ("!", 0, 3), ("!", 0, 2))
    assert not in_turn(one, ["s"] * 6).late
