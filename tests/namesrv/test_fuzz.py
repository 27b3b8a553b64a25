"""A name server under fire: every code with fields that mostly fit, bodies that mostly do not, some bytes damaged.

It answers or closes that connection, no handler has a bug that shows, and a broker that registers afterwards is found.
"""

from __future__ import annotations

import json
import logging
import random
import tempfile
import zlib

import pytest

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from rmq_wire.codes import RequestCode
from rmq_wire.command import Form, encode_request
from rmq_wire.declare import REQUESTS, Role
from tests.support.engine_session import EngineSession
from tests.support.night_seeds import each_of_the_night

NAME_SERVER_REQUESTS = sorted({r for (role, _code), r in REQUESTS.items() if role == Role.NAME_SERVER}, key=lambda r: r.code)
HOSTILE = ["..", "a/b", "", "-1", "9" * 30, "true", "\x00", "\n", "x" * 300, "\ud7ff", "name=value"]
FITTING = {str: ["T", "c", "broker-a", "127.0.0.1:1", "NS"], int: ["0", "1", "-1", "4096"], bool: ["true", "false"]}
TOPICS = {"topicConfigSerializeWrapper": {"topicConfigTable": {"T": {"topicName": "T", "perm": 6}}, "dataVersion": {}}}
INFLATED = b"\x00\x00\x00\x02{}\x7f\xff\xff\xff"
"""A compressed registration: a data version, then 2^31 - 1 topics announced."""
BODIES = [
    b"",
    b"{}",
    b"null",
    b"[]",
    b"\xff",
    b"{" * 3000,
    json.dumps(TOPICS).encode(),
    zlib.compress(INFLATED),
    zlib.compress(b"\x80" * 9),
    zlib.compress(bytes(1 << 20)),
    b"x\x9c",
    b"key=value\n",
    b"kvConfigPath=/tmp/x\n",
    b"a=\\nb",
]


def salvo(seed: int) -> None:
    rng = random.Random(seed)
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as home:
            session = EngineSession(home)
            client = session.driver.connect()
            for n, request in enumerate(rng.sample(NAME_SERVER_REQUESTS * 4, len(NAME_SERVER_REQUESTS) * 4)):
                ext = {
                    field.wire: rng.choice(FITTING[field.kind] if rng.random() < 0.8 else HOSTILE)
                    for field in request.fields()
                    if rng.random() < 0.9
                }
                form = rng.choice(list(Form))
                whole = bytearray(encode_request(request.code, None, rng.choice(BODIES), opaque=n, ext=ext, form=form))
                if rng.random() < 0.2:
                    whole[rng.randrange(len(whole))] = rng.randrange(256)
                client = session.driver.connect() if client.closed else client
                client.raw(bytes(whole))
                client.answers.clear()
                where = f"{RequestCode(request.code).name} in salvo({seed})"
                assert session.server.engine.counters.errors == 0, where
            session.driver.advance(20_000)
            named = {
                "brokerName": "late",
                "brokerAddr": "127.0.0.9:10911",
                "clusterName": "late",
                "haServerAddr": "",
                "brokerId": "0",
            }
            body = {
                "topicConfigSerializeWrapper": {
                    "topicConfigTable": {
                        name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
                        for name in ("Late", "Later")
                    }
                }
            }
            assert session.ask(RequestCode.REGISTER_BROKER, named, body).code == 0
            assert session.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Late"}).code == 0
    finally:
        logging.disable(logging.NOTSET)


def test_salvos() -> None:
    for seed in range(60):
        salvo(seed)


@pytest.mark.nightly
def test_many_salvos() -> None:
    each_of_the_night(5_000, salvo)
