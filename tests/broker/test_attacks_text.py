"""Attacks by text that is more than text where it is shown: logs, remarks, listings.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_wire.bodies.connections import ConsumerConnection
from rmq_wire.command import Form
from rmq_wire.declare import REQUESTS
from rmq_wire.headers.clients import GetConsumerConnectionList, Heartbeat, UnregisterClient
from rmq_wire.headers.groups import GetSubscriptionGroupConfig
from rmq_wire.headers.topics import GetTopicConfig
from tests.broker.hostile_texts import HOSTILE, hostile
from tests.broker.siege import siege, two_topics
from tests.support.bad_frames import header_and_body
from tests.support.requests import pairs, pull, send

CLIENT_ID_MAX = 1_024
"""Characters that a heartbeat takes of a client's name for itself; a longer one is refused (attack 12)."""


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param(text, form, id=f"{label}-{form.name}")
        for label, text in HOSTILE.items()
        for form in Form
        if label != "surrogate" or form is not Form.ROCKETMQ  # it is no UTF-8
    ],
)
def test_attack_50_in_every_text_field_of_every_request(tmp_path: Path, text: str, form: Form) -> None:
    """Whatever the request, few lines are logged for it, none is long, and every character of them can be shown."""
    may_change = ("topics", "groups", "forbidden", "messages", "log", "directories", "progress")
    body = json.dumps(
        {"clientID": text[:CLIENT_ID_MAX], "groupName": text, "consumerGroup": text, "topicConfigList": [{"topicName": text}]}
    )
    with two_topics(tmp_path) as broker, broker.unharmed(*may_change):
        client = broker.connect()
        for request in REQUESTS.values():
            said = len(broker.lines.messages)
            if client.closed:
                client = broker.connect()
            fields = {field.wire: text if field.kind is str else "0" for field in request.fields()}
            client.raw(header_and_body(request.code, fields, body.encode(), form))
            client.answers.clear()
            new = broker.lines.messages[said:]
            assert len(new) <= 3, new
            assert all(len(line) < 1_500 for line in new), new
            broker.lines.check()


@hostile
def test_attack_50_in_names_that_clients_give_themselves(tmp_path: Path, text: str) -> None:
    """Client ids, tags, keys and expressions are handed on as they are, as data, and logged as one line."""
    with two_topics(tmp_path) as broker:
        client, tool = broker.connect(), broker.connect()
        text = text.replace("\ud800", "")[:1_000]
        subscription = {"topic": "T", "subString": text, "tagsSet": [text], "codeSet": [1], "subVersion": 1}
        consumer = {"groupName": "G", "consumeType": text, "messageModel": text, "subscriptionDataSet": [subscription]}
        body = json.dumps(
            {"clientID": text[:CLIENT_ID_MAX], "consumerDataSet": [consumer], "producerDataSet": [{"groupName": text}]}
        ).encode()
        assert client.ask(Heartbeat(), body).code == 0
        found = ConsumerConnection.read(tool.ask(GetConsumerConnectionList(consumer_group="G")).body)
        assert [connection.client_id for connection in found.connection_set] == [text[:CLIENT_ID_MAX]]
        assert client.ask(send("T", properties=pairs(UNIQ_KEY="K" * 32, TAGS=text, KEYS=text)), text.encode() or b"x").code in (
            0,
            13,
        )
        assert client.ask(pull("T", subscription=text)).code in (0, 19, 20, 23)
        assert client.ask(UnregisterClient(client_id=text, producer_group=text, consumer_group="G")).code == 0
        broker.lines.check()


@hostile
def test_attack_50_in_remarks(tmp_path: Path, text: str) -> None:
    """Nothing of ours formats an unknown peer's text; the header stays JSON that any reader takes."""
    with two_topics(tmp_path) as broker:
        unknown = broker.connect()
        asked: list[Any] = [GetTopicConfig(topic=text), GetSubscriptionGroupConfig(group=text), send(text), pull(text)]
        for request in asked:
            frame = header_and_body(request.code, {**request.encode()}, b"x", Form.JSON)
            unknown.raw(frame)
            if unknown.closed:
                unknown = broker.connect()
                continue
            answer = unknown.answers.pop(7)
            assert answer.code != 0


def test_attack_50_a_peer_cannot_fill_the_log(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        said = len(broker.lines.messages)
        for _ in range(500):
            broker.attack(b"GET / HTTP/1.1\r\n\r\n")
        assert len(broker.lines.messages) - said <= 20
        broker.pass_time(10_000)
        broker.attack(b"GET / HTTP/1.1\r\n\r\n")
        assert broker.lines.about("lines left out")
