"""Frames that stock clients and the real servers sent: each is read, and what a 5.5.0 server writes we write byte for byte."""

from __future__ import annotations

import pytest

import rmq_wire.headers.all  # noqa: F401  (fills the registry)
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.conversation import Conversation
from rmq_wire.declare import REQUESTS, Header, Request, Role
from rmq_wire.encoding import Form, encode_request, encode_response
from tests.support.golden import FRAME_FILES, SERVER_VERSION, exchanges

# Answers of the reference that have a header class without any field: it writes an empty `extFields`.
EMPTY_HEADER = {RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP}


def decode(data: bytes) -> Command:
    [command] = Conversation().feed(data)
    assert isinstance(command, Command), command
    return command


def writes_ext(command: Command, data: bytes) -> bool:
    """Is there an `extFields`, were it an empty one?"""
    return bool(command.ext_map()) or b'"extFields":{}' in data


def declared(code: int | None) -> type[Request]:
    """The request class of a code, whoever answers it; code numbers of different roles do not clash in the files."""
    for role in (Role.BROKER, Role.NAME_SERVER, Role.CLIENT):
        if found := REQUESTS.get((role, code or 0)):
            return found
    raise AssertionError(f"no request is declared for code {code}")


@pytest.mark.parametrize("stem", FRAME_FILES)
def test_every_header_is_read_into_its_class(stem: str) -> None:
    assert exchanges(stem)
    for data, asked, is_response in exchanges(stem):
        command = decode(data)
        if asked is None or (is_response and command.code != 0):
            continue
        kind: type[Header] = declared(asked).reply if is_response else declared(asked)
        header = command.header(kind)
        ext = command.ext_map()
        encoded = header.encode()
        for name in encoded.keys() & ext.keys():
            assert encoded[name] == ext[name], (kind, name)
        # What the class does not know is lost on us; of the pull requests of all versions it is nothing but `ReqT`.
        assert ext.keys() - encoded.keys() <= {"ReqT"}, kind


@pytest.mark.parametrize("stem", FRAME_FILES)
def test_every_byte_of_the_frame_is_accounted_for(stem: str) -> None:
    stream = b"".join(exchange.data for exchange in exchanges(stem))
    for step in (1, 7, 4096):
        conversation = Conversation()
        count = 0
        for at in range(0, len(stream), step):
            count += sum(1 for _ in conversation.feed(stream[at : at + step]))
        assert count == len(exchanges(stem))
        assert conversation.bytes_pending == 0


@pytest.mark.parametrize("stem", [stem for stem in FRAME_FILES if not stem.startswith("registration-4")])
def test_what_a_server_answers_we_answer_byte_for_byte(stem: str) -> None:
    compared = 0
    for data, asked, is_response in exchanges(stem):
        command = decode(data)
        if not is_response or asked is None or command.version != SERVER_VERSION:
            continue
        header: Header | None = None
        if command.code == 0:
            reply = declared(asked).reply
            header = command.header(reply) if reply.fields() else Header() if asked in EMPTY_HEADER else None
        elif writes_ext(command, data):
            # Refused, or nothing found, after the response had been made with its class.
            header = command.header(declared(asked).reply) if command.ext_map() else Header()
        ours = encode_response(
            command.code,
            command.opaque,
            form=Form(command.form),
            remark=command.remark,
            header=header,
            body=command.body,
        )
        assert (ours if isinstance(ours, bytes) else b"".join(ours)) == data, asked
        compared += 1
    assert compared


# What a 5.5.0 client writes and `encode_request` does not, while we have no client: the order of fields that the base class of
# a request header has (Java's own fields come first), and empty values in the binary form, which read as absent.
PULLS = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
NOT_REPRODUCED = {(form, code) for form in Form for code in PULLS} | {(Form.ROCKETMQ, RequestCode.UPDATE_AND_CREATE_TOPIC)}


@pytest.mark.parametrize("stem", [stem for stem in FRAME_FILES if "5.5.0" in stem])
def test_what_a_client_asks_we_ask_byte_for_byte(stem: str) -> None:
    compared = 0
    for data, asked, is_response in exchanges(stem):
        command = decode(data)
        if is_response or (Form(command.form), asked) in NOT_REPRODUCED:
            continue
        kind = declared(asked)
        header = command.header(kind) if writes_ext(command, data) else None
        unknown = {name: value for name, value in command.ext_map().items() if name not in (header.encode() if header else {})}
        ours = encode_request(
            command.code,
            header,
            bytes(command.body),
            opaque=command.opaque,
            form=Form(command.form),
            ext=unknown or None,
            oneway=command.is_oneway,
            language=command.language,
            version=command.version,
        )
        assert ours == data, asked
        compared += 1
    assert compared
