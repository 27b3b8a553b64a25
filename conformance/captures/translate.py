"""Recorded frames as another server must hear them: what is tied to the first server is put into the second one's terms.

Fields are known by their declared names.  A frame in which nothing is tied goes out byte for byte as it was recorded; one that
is changed is written anew with the same members.  Opaques of questions stay; an answer takes the opaque of the server's question.
"""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.captures.bodies import BATCH, MESSAGE, jsonable
from conformance.captures.decoding import Said, declared, parse
from conformance.captures.kinds import Kind, Learned, Queue
from rmq_wire import fastjson
from rmq_wire import property_names as properties
from rmq_wire.codes import RequestCode as Code
from rmq_wire.command import Command
from rmq_wire.encoding import encode_request, encode_response
from rmq_wire.errors import BadBody
from rmq_wire.properties import decode, encode

DATA_VERSION: Final = "data_version"
EXTRA_INFO: Final = "extra_info"
PROPERTIES: Final = "properties"
TIED: Final[dict[str, Kind]] = {
    "commit_log_offset": Kind.PHYSICAL_OFFSET,
    "queue_offset": Kind.QUEUE_OFFSET,
    "commit_offset": Kind.QUEUE_OFFSET,
    "tran_state_table_offset": Kind.QUEUE_OFFSET,
    "index": Kind.QUEUE_OFFSET,
    "offset": Kind.QUEUE_OFFSET,
    "msg_id": Kind.MESSAGE_ID,
    "origin_msg_id": Kind.MESSAGE_ID,
    "offset_msg_id": Kind.MESSAGE_ID,
    "begin_timestamp": Kind.TIME,
    "end_timestamp": Kind.TIME,
    "timestamp": Kind.TIME,
    "born_timestamp": Kind.TIME,
    "born_time": Kind.TIME,
    "store_timestamp": Kind.TIME,
    "broker_addr": Kind.ADDRESS,
    "ha_server_addr": Kind.ADDRESS,
    "client_addr": Kind.ADDRESS,
    "recall_handle": Kind.HANDLE,
}
"""Declared field of a request -> what it is, where that is tied to a server."""
PHYSICAL: Final = frozenset({Code.VIEW_MESSAGE_BY_ID, Code.CONSUMER_SEND_MSG_BACK})
"""Requests whose `offset` is one of the commit log."""
TIED_PROPERTIES: Final[dict[str, Kind]] = {
    properties.TIMER_DELIVER_MS: Kind.TIME,
    properties.ORIGIN_MESSAGE_ID: Kind.MESSAGE_ID,
    properties.POP_CK: Kind.HANDLE,
}
"""Message properties that clients fill with what a server answered, or with a time to come."""
TIED_MEMBERS: Final[dict[str, Kind]] = {"timestamp": Kind.TIME, "counter": Kind.COUNTER, "pt": Kind.TIME}
"""Members of JSON bodies: of data versions, and the pop time of a batch of acknowledgements."""


def request_here(data: bytes, said: Said, learned: Learned) -> bytes:
    """A recorded request in the other server's terms; the recorded bytes when nothing in it is tied to the first one."""
    command = parse(data)
    if not isinstance(command, Command):
        return data
    ext, body = _ext_here(said, learned), _body_here(bytes(command.body), said, learned)
    if ext == (said.ext or {}) and body == bytes(command.body):
        return data
    return encode_request(
        command.code,
        None,
        body,
        opaque=command.opaque,
        form=command.form,
        oneway=command.is_oneway,
        ext=ext if said.ext is not None else None,
        language=max(command.language, 0),
        version=command.version,
    )


def answer_here(data: bytes, said: Said, opaque: int, learned: Learned) -> bytes:
    """A recorded answer of the client to a question of the server, with the number that the question has here."""
    command = parse(data)
    if not isinstance(command, Command):
        return data
    made = encode_response(
        command.code,
        opaque,
        form=command.form,
        remark=command.remark,
        ext=said.ext,
        body=_body_here(bytes(command.body), said, learned),
        language=max(command.language, 0),
        version=command.version,
    )
    return made if isinstance(made, bytes) else b"".join(made)


def _ext_here(said: Said, learned: Learned) -> dict[str, str]:
    ext = said.ext or {}
    request = declared(said.asked, to_client=said.to_client)
    names = {field.wire: field.name for field in request.fields()} if request is not None else {}
    by_name = {names[wire]: value for wire, value in ext.items() if wire in names}
    queue = (by_name["topic"], by_name["queue_id"]) if by_name.keys() >= {"topic", "queue_id"} else None
    return {wire: _field_here(names.get(wire, ""), value, said.code, queue, learned) for wire, value in ext.items()}


def _field_here(name: str, value: str, code: int, queue: Queue | None, learned: Learned) -> str:
    if name == PROPERTIES:
        return _properties_here(value, learned)
    if name == DATA_VERSION:
        return _json_here(value.encode(), learned).decode()
    if name == EXTRA_INFO:
        return _receipt_here(value, queue, learned)
    if name == "offset" and code in PHYSICAL:
        return learned.here(Kind.PHYSICAL_OFFSET, value)
    if name in TIED:
        return learned.here(TIED[name], value, queue)
    return learned.text(value)


def _properties_here(text: str, learned: Learned) -> str:
    pairs = decode(text)
    here = {name: learned.here(TIED_PROPERTIES[name], value) for name, value in pairs.items() if name in TIED_PROPERTIES}
    if properties.CLUSTER in pairs:
        here[properties.CLUSTER] = learned.text(pairs[properties.CLUSTER])
    return encode({**pairs, **here}) if any(pairs[name] != value for name, value in here.items()) else text


def _receipt_here(text: str, queue: Queue | None, learned: Learned) -> str:
    """The receipt of a popped message (`ExtraInfoUtil.buildExtraInfo`): its first and last part are offsets of the queue."""
    parts = text.split(" ")
    if len(parts) < 7:
        return text
    here = [learned.here(Kind.TIME, part) if at == 1 else learned.text(part) for at, part in enumerate(parts)]
    for at in (0, 7):
        if at < len(parts):
            here[at] = learned.here(Kind.QUEUE_OFFSET, parts[at], queue)
    return " ".join(here)


def _body_here(body: bytes, said: Said, learned: Learned) -> bytes:
    if said.body is None or said.body.kind in (MESSAGE, BATCH) or body[:1] not in (b"{", b"["):
        return body
    return _json_here(body, learned)


def _json_here(text: bytes, learned: Learned) -> bytes:
    try:
        read = fastjson.loads(text)
    except BadBody:
        return text
    here = _value_here("", read, learned)
    if json.dumps(jsonable(here)) == json.dumps(jsonable(read)):
        return text
    return fastjson.dumps_fastjson(here)


def _value_here(name: str, value: Any, learned: Learned) -> Any:
    if isinstance(value, dict):
        return {_key_here(key, learned): _value_here(str(key), item, learned) for key, item in value.items()}
    if isinstance(value, list):
        return [_value_here(name, item, learned) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and name in TIED_MEMBERS:
        return int(learned.here(TIED_MEMBERS[name], str(value)))
    return learned.text(value) if isinstance(value, str) else value


def _key_here(key: Any, learned: Learned) -> Any:
    if isinstance(key, fastjson.MessageQueue):
        return key._replace(broker_name=learned.text(key.broker_name))
    return learned.text(key) if isinstance(key, str) else key
