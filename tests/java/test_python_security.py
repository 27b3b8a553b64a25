"""The client's signature and TLS beside the real RocketMQ: who signs wrongly is refused, certificates are checked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rmq_client.blocking import connect
from rmq_client.errors import BrokerError, Unreachable
from rmq_client.messages import Message
from rmq_client.signing import Credentials
from tests.support.java import java
from tests.support.process import until
from tests.support.reference import JavaBroker, JavaNameServer
from tests.support.rmq import ROOT
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java
PEMS = ROOT / "tests" / "client" / "tls"
AUTH = "org.apache.rocketmq.auth.authentication.provider"
ADMIN = Credentials("administrator", "the-secret")
ACL_5 = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{AUTH}.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{ADMIN.access_key}","password":"{ADMIN.secret_key}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"{ADMIN.access_key}","secretKey":"{ADMIN.secret_key}"}}',
}
PLAIN_ACL = f"""accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret_key}
  admin: true
"""
"""Of 4.x, in the broker's home; it wants `conf/acl` to be there, too."""


@pytest.fixture(scope="module", params=["5.5.0", pytest.param("4.9.7", marks=pytest.mark.nightly)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server whose broker takes only what is signed."""
    java()
    version, directory = request.param, tmp_path_factory.mktemp("guarded")
    with JavaNameServer(directory / "namesrv", version=version) as names:
        properties = ACL_5 if version == "5.5.0" else {"aclEnable": "true"}
        broker = JavaBroker(directory / "broker", names.address, version=version, properties=properties)
        conf = broker.directory / "conf"
        (conf / "acl").mkdir(parents=True, exist_ok=True)
        (conf / "plain_acl.yml").write_text(PLAIN_ACL)
        with broker:
            yield names.address


def test_what_is_signed_is_taken(guarded: str) -> None:
    with connect(guarded, credentials=ADMIN) as client:
        client.topics.create("signed", queues=2)
        producer, seen = client.producer("signed-p"), []
        sent = producer.send(Message("signed", "grün".encode(), tags="A", properties={"farbe": "grün"}))
        producer.send_batch([Message("signed", b"1"), Message("signed", b"2")])
        puller = client.puller("signed-g")
        until(lambda: sum(map(puller.max_offset, puller.queues("signed"))) == 3, "three messages", seconds=PATIENCE_S)
        for queue in puller.queues("signed"):
            seen += puller.messages(queue, 0, hold_ms=0)
            puller.commit_offset(queue, puller.max_offset(queue))
        assert sent.message_id in {message.message_id for message in seen}


@pytest.mark.parametrize("credentials", [None, Credentials("administrator", "wrong-secret"), Credentials("nobody", "the-secret")])
def test_what_is_not_signed_by_somebody_known_is_refused(guarded: str, credentials: Credentials | None) -> None:
    with connect(guarded, credentials=ADMIN) as client:
        client.topics.create("refused", queues=1)
    with connect(guarded, credentials=credentials) as client, pytest.raises(BrokerError) as raised:
        client.producer("refused-p", retry_times_when_send_failed=0).send(Message("refused", b"x"))
    assert raised.value.name in ("NO_PERMISSION", "SYSTEM_ERROR"), str(raised.value)
    assert not raised.value.maybe_stored


def in_tls(jvm: Sequence[str]) -> list[str]:
    """Its flags, with TLS where it was off."""
    files = {"tls.server.mode": "permissive", "tls.test.mode.enable": "false", "tls.config.file": "/none"}
    files |= {"tls.server.keyPath": str(PEMS / "key.pem"), "tls.server.certPath": str(PEMS / "cert.pem")}
    return [*(flag for flag in jvm if "tls.server.mode" not in flag), *(f"-D{name}={value}" for name, value in files.items())]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server and a broker with our certificate."""
    java()
    directory = tmp_path_factory.mktemp("secure")
    names = JavaNameServer(directory / "namesrv")
    names.jvm = in_tls(names.jvm)
    with names:
        broker = JavaBroker(directory / "broker", names.address)
        broker.jvm = in_tls(broker.jvm)
        with broker:
            yield names.address


def test_messages_travel_in_tls(secure: str) -> None:
    context = ssl.create_default_context(cafile=PEMS / "cert.pem")
    with connect(secure, tls=context) as client:
        client.topics.create("tls", queues=1)
        producer = client.producer("tls-p")
        for number in range(20):
            producer.send(Message("tls", b"%d" % number * 5_000))
        puller = client.puller()
        [queue] = puller.queues("tls")
        found = puller.pull(queue, 0, hold_ms=30_000, max_messages=1)
        assert found.messages[0].body == b"0" * 5_000


def test_a_certificate_that_nobody_signed_is_refused(secure: str, tmp_path: Path) -> None:
    with (
        connect(secure, tls=ssl.create_default_context()) as client,
        pytest.raises(Unreachable, match="certificate verify failed"),
    ):
        client.topics.names()
