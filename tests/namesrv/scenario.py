"""Everything that a name server answers, asked in one long conversation that any server can be put through.

`play(session)` returns the answers by a label each, in a form that does not depend on ports, paths, or the order of sets.  What
the real 5.5.0 name server said stands in `java_answers.json` (`python -m tests.namesrv.record` makes it again).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.support.exchange import V4_9_3, Said, broker, compressed_body, crc, register_body, topic

Step = Callable[[str, Said], None]

T = [
    topic("T1"),
    topic("T2", flag=1),
    topic("T3", flag=2),
    topic("T4", flag=3),
    topic("TBW102", perm=7, queues=8),
    topic("R", perm=4),
]
VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
ORDERED = "ORDER_TOPIC_CONFIG"
MACHINE_KEYS = ("bindAddress", "configStorePath", "kvConfigPath", "listenPort")
"""Keys of answer 319 whose values differ by place; `rocketmqHome` is there only where the environment has it."""
_UNORDERED = ("topicList", "clusterAddrTable")


class SessionLike(Protocol):
    """`exchange.Session`, or the same on an engine."""

    def ask(
        self,
        code: int,
        ext: Mapping[str, Any] | None = None,
        body: bytes | Mapping[str, Any] = b"",
        *,
        who: str = "tool",
        version: int = 513,
    ) -> Said: ...
    def send_oneway(self, code: int, ext: Mapping[str, Any], body: bytes = b"", *, who: str = "tool") -> None: ...
    def close(self, who: str) -> None: ...
    def settled(self, name: str, ids: list[int]) -> None: ...


class Player:
    """Asks and writes down."""

    def __init__(self, session: SessionLike) -> None:
        self.session = session
        self.answers: dict[str, dict[str, Any]] = {}

    def __call__(
        self, label: str, code: int, ext: Mapping[str, Any] | None = None, body: bytes | Mapping[str, Any] = b"", **how: Any
    ) -> None:
        said = self.session.ask(code, ext, body, **how)
        assert label not in self.answers
        self.answers[label] = {
            "code": said.code,
            "remark": said.remark,
            "ext": dict(sorted(said.ext.items())),
            "body": normal(said.body),
            "bare": said.bare,
        }

    def routes(self, label: str, *topics: str) -> None:
        for name in topics:
            self(f"{label}: route of {name}", 105, {"topic": name})

    def tables(self, label: str) -> None:
        self(f"{label}: clusters", 106)
        self(f"{label}: topics", 206)
        self(f"{label}: system topics", 304)


def normal(body: Any) -> Any:
    """Sets sorted, places of the machine left out."""
    return _entries(body) if isinstance(body, str) else _without_order(body)


def _entries(text: str) -> dict[str, str]:
    found = dict(line.split("=", 1) for line in text.splitlines())
    return {key: "<here>" if key in MACHINE_KEYS else value for key, value in found.items() if key != "rocketmqHome"}


def _without_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(item) if key in _UNORDERED else _without_order(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_without_order(item) for item in value]
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted(names) for key, names in sorted(value.items())}
    return sorted(value)


JAVA_ERROR = re.compile(r"^(java|com|org)\.[\w.]+(Exception|Error)\b")


def same_answer(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Equal; where Java names the exception that it ran into, any remark of ours will do."""
    if theirs["remark"] and JAVA_ERROR.match(theirs["remark"]):
        return {**theirs, "remark": None} == {**ours, "remark": None} and bool(ours["remark"])
    return theirs == ours


def play(session: SessionLike) -> dict[str, dict[str, Any]]:
    """The conversation."""
    said = Player(session)
    for part in (
        _nothing_there,
        _missing_fields,
        _registering,
        _lists,
        _signs_of_life,
        _permissions,
        _single_topics,
        _key_values,
        _spellings,
        _configuration,
        _leaving,
    ):
        part(said)
    return said.answers


def _nothing_there(said: Player) -> None:
    said.tables("empty")
    for code in (311, 312, 313):
        said(f"empty: {code}", code)
    said("empty: 224", 224, {"cluster": "C"})
    said("empty: members", 901, {"clusterName": "C", "brokerName": "broker-a"})
    said("empty: version", 322, broker(), VERSION)
    said("empty: heartbeat", 904, broker())
    said("empty: wipe", 205, {"brokerName": "broker-a"})
    said("empty: unregister", 104, broker())
    said("empty: delete topic", 216, {"topic": "T1"})
    said.routes("empty", "T1", "%RETRY%é")
    said("unknown code", 9999)
    said("a broker's code", 10)


def _registering(said: Player) -> None:
    body = register_body(*T)
    said("increment of an unknown broker", 103, broker(), register_body(T[0]), who="a")
    said("increment of an unknown broker: clusters", 106)
    said("register a", 103, broker(), body, who="a")
    said("register a with check sum", 103, broker(bodyCrc32=crc(body)), body, who="a")
    said("register a with wrong check sum", 103, broker(bodyCrc32=1), body, who="a")
    said("register a1", 103, broker(number=1, port=10921, enableActingMaster="false"), body, who="a1")
    said("register b in a zone", 103, broker("broker-b", port=20911, cluster="D", __ZONE_NAME="z"), body, who="b")
    said.tables("registered")
    said.routes("registered", "T1", "TBW102", "R", "nope")
    said("increment", 103, broker(), register_body(topic("N", queues=2), counter=2), who="a")
    said.routes("increment", "N", "T1")
    said("no body", 103, broker("empty", port=3), b"", who="e")
    said("broken body", 103, broker("broken", port=4), b"xxxx", who="e")
    said("id is no number", 103, broker("broken", number="x", port=4), body, who="e")  # type: ignore[arg-type]
    said("no address", 103, {**broker("broken", port=4), "brokerId": None}, body, who="e")
    old = {"dataVersion": VERSION, "topicConfigTable": {config["topicName"]: config for config in T}}
    said("body of 3.0.8", 103, broker("old", port=5), old, who="e", version=30)
    said("compressed", 103, broker("packed", port=6, compressed="true"), compressed_body(*T), who="e")
    said(
        "compressed of 4.9",
        103,
        broker("packed4", port=7, compressed="true"),
        compressed_body(*T, mappings=False),
        who="e",
        version=V4_9_3,
    )
    said("compressed and not announced", 103, broker("packed", port=6), compressed_body(*T), who="e")
    said("broken compressed", 103, broker("broken", port=4, compressed="true"), b"xxxx", who="e")
    said("cut compressed", 103, broker("broken", port=4, compressed="true"), compressed_body(*T)[:-40], who="e")
    said.routes("all spellings", "T4")
    for name, port in (("empty", 3), ("old", 5), ("packed", 6), ("packed4", 7)):
        said(f"unregister {name}", 104, broker(name, port=port))
        said.session.settled(name, [])


def _missing_fields(said: Player) -> None:
    for code in (100, 101, 102, 103, 104, 105, 205, 216, 217, 219, 224, 322, 327, 901, 904):
        said(f"no fields: {code}", code)


def _lists(said: Player) -> None:
    for code in (311, 312, 313):
        said(f"lists: {code}", code)
    said("lists: of C", 224, {"cluster": "C"})
    said("lists: of D", 224, {"cluster": "D"})
    said("lists: of nobody", 224, {"cluster": "X"})
    said("members of a", 901, {"clusterName": "C", "brokerName": "broker-a"})
    said("members of a elsewhere", 901, {"clusterName": "X", "brokerName": "broker-a"})
    said("members of nobody", 901, {"clusterName": "C", "brokerName": "x"})


def _signs_of_life(said: Player) -> None:
    said("same version", 322, broker(), {**VERSION, "counter": 2})
    said("other version", 322, broker(), {**VERSION, "counter": 3})
    said("other time", 322, broker(), {**VERSION, "counter": 2, "timestamp": 1})
    said("no version", 322, broker())
    said("broken version", 322, broker(), b"{broken")
    said("version of an unknown broker", 322, broker(port=1), VERSION)
    said("version in another cluster", 322, broker(cluster="X"), VERSION)
    said("heartbeat", 904, broker())
    said("heartbeat without id", 904, {**broker(), "brokerId": None})


def _permissions(said: Player) -> None:
    said("wipe", 205, {"brokerName": "broker-a"})
    said.routes("wiped", "T1", "TBW102", "R")
    said("register a unchanged", 103, broker(), register_body(*T, counter=2), who="a")
    said.routes("wiped still", "T1")
    said("add", 327, {"brokerName": "broker-a"})
    said.routes("added", "T1", "TBW102", "R")
    said("wipe again", 205, {"brokerName": "broker-a"})
    said("register a changed", 103, broker(), register_body(*T, counter=3), who="a")
    said.routes("registered anew", "T1", "R")
    said("add nobody", 327, {"brokerName": "x"})


def _single_topics(said: Player) -> None:
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 3, "topicSysFlag": 0, "writeQueueNums": 3}
    said("register topic", 217, {"topic": "S"}, {"queueDatas": [queues]})
    said("register topic of b too", 217, {"topic": "S"}, {"queueDatas": [{**queues, "brokerName": "broker-b"}]})
    said("register topic of nobody", 217, {"topic": "M"}, {"queueDatas": [{**queues, "brokerName": "x"}]})
    said("register topic with nothing", 217, {"topic": "M"}, {"queueDatas": []})
    said("register topic with an empty body", 217, {"topic": "M"}, {})
    said("register topic without body", 217, {"topic": "M"})
    said("register topic with a broken body", 217, {"topic": "M"}, b"xx")
    said.routes("single", "S", "M")
    said("delete S in D", 216, {"topic": "S", "clusterName": "D"})
    said("delete S nowhere", 216, {"topic": "S", "clusterName": "X"})
    said.routes("deleted in D", "S")
    said("delete S", 216, {"topic": "S"})
    said("delete N with an empty cluster", 216, {"topic": "N", "clusterName": ""})
    said.routes("deleted", "S", "N")


def _key_values(said: Player) -> None:
    said("get from nowhere", 101, {"namespace": ORDERED, "key": "T1"})
    said("list nowhere", 219, {"namespace": ORDERED})
    said("delete nowhere", 102, {"namespace": ORDERED, "key": "T1"})
    said("put", 100, {"namespace": ORDERED, "key": "T1", "value": "broker-a:4"})
    for key in ("zeta", 'é"\\q', "alpha", "x y"):
        said(f"put {key}", 100, {"namespace": "NS", "key": key, "value": f"v\n{key}"})
    said("put empty", 100, {"namespace": "NS", "key": "empty", "value": ""})
    said("get", 101, {"namespace": ORDERED, "key": "T1"})
    said("get strange", 101, {"namespace": "NS", "key": 'é"\\q'})
    said("get missing", 101, {"namespace": ORDERED, "key": "T2"})
    said("list", 219, {"namespace": "NS"})
    said("register with ordered topics", 103, broker(), register_body(*T, counter=3), who="a")
    said.routes("order is not answered", "T1")
    said("put another", 100, {"namespace": ORDERED, "key": "T1", "value": "broker-a:5"})
    said("configure order", 318, {}, b"orderMessageEnable=true\n")
    said.routes("order is answered", "T1", "T2")
    said("configure no ordered topics", 318, {}, b"returnOrderTopicConfigToBroker=false\n")
    said("register without ordered topics", 103, broker(), register_body(*T, counter=3), who="a")
    said("delete", 102, {"namespace": ORDERED, "key": "T1"})
    said("get deleted", 101, {"namespace": ORDERED, "key": "T1"})
    said("list emptied", 219, {"namespace": ORDERED})
    said("configure ordered topics", 318, {}, b"returnOrderTopicConfigToBroker=true\n")
    said("register with emptied ordered topics", 103, broker(), register_body(*T, counter=3), who="a")


def _spellings(said: Player) -> None:
    for version in (0, V4_9_3, 400, 401, 513, 99_999):
        said(f"route for version {version}", 105, {"topic": "T1"}, version=version)
    said("route in strict JSON", 105, {"topic": "T1", "acceptStandardJsonOnly": "true"}, version=0)
    said("route in no strict JSON", 105, {"topic": "T1", "acceptStandardJsonOnly": "1"}, version=0)
    said("route for zone z", 105, {"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": "Z"})
    said("route for zone y", 105, {"topic": "T1", "__ZONE_MODE": "TRUE", "__ZONE_NAME": "y"})
    said("route for no zone", 105, {"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": " "})
    said("route without zone mode", 105, {"topic": "T1", "__ZONE_NAME": "z"})
    said("strange names", 103, broker("ü\U0001f600\x7f", port=8), register_body(topic("é"), topic("%DLQ%x")), who="s")
    said.routes("strange", "é")
    said("strange: for 4.9", 105, {"topic": "é"}, version=V4_9_3)
    said("unregister strange", 104, broker("ü\U0001f600\x7f", port=8))
    said.session.settled("ü\U0001f600\x7f", [])


def _configuration(said: Player) -> None:
    said("configuration", 319)
    said("configure nothing", 318)
    said("configure on the black list", 318, {}, b"enableTopicList=false\nkvConfigPath=/x\n")
    said("configure the home", 318, {}, b"rocketmqHome=/x\n")
    said("configure a broken text", 318, {}, b"enableTopicList=\\u00zz\n")
    said("configure no number", 318, {}, b"waitSecondsForService=abc\nunknownKey=1\nscanNotActiveBrokerInterval=7000\n")
    said("configured", 319)
    said("configure no lists", 318, {}, b"enableTopicList = false\nenableAllTopicList:false")
    for code in (206, 224, 304, 311, 312, 313):
        said(f"no lists: {code}", code, {"cluster": "C"})
    said("configure lists", 318, {}, b"enableTopicList=true\nenableAllTopicList=true")
    said("configure waiting", 318, {}, b"needWaitForService=true\nwaitSecondsForService=100000")
    said.routes("waiting", "T1", "nope")
    said("configure no waiting", 318, {}, b"needWaitForService=false")
    said("configured at last", 319)


def _leaving(said: Player) -> None:
    said.session.close("a")
    said.session.settled("broker-a", [1])
    said.routes("master gone", "T1", "R")
    said.tables("master gone")
    said("acting masters", 318, {}, b"supportActingMaster=true")
    said.routes("nobody acts", "T1")
    said("register a2", 103, broker(number=2, port=10931, enableActingMaster="true"), register_body(*T), who="a2")
    said(
        "register a1 acting", 103, broker(number=1, port=10921, enableActingMaster="true"), register_body(*T, counter=5), who="a1"
    )
    said.routes("acting", "T1", "rmq_sys_SYNC_BROKER_MEMBER_x")
    said("slave unregisters on another connection", 104, broker(number=1, port=10921))
    said.session.settled("broker-a", [2])
    said.routes("the next acts", "T1")
    said("master back", 103, broker(enableActingMaster="true"), register_body(*T, counter=6), who="a")
    said.routes("master back", "T1")
    said("master moves", 103, broker(port=10941), register_body(*T, counter=6), who="m")
    said.routes("master moved", "T1")
    said("an older state", 103, broker("broker-b", port=20921, cluster="D"), register_body(*T, state=-1), who="m")
    said.routes("older state", "T1")
    said("slave becomes master", 103, broker(number=0, port=10931), register_body(*T, counter=9), who="a2")
    said.routes("slave is master", "T1")


_REFUSED = "a registration that is ignored changes nothing; Java takes over its zone and its acting-master mark"
_MISSING = (
    "a missing required field is an error that names it; Java goes on with null and mostly answers as if nothing had been there"
)
DIFFERENT = {
    "increment of an unknown broker: clusters": "a refused registration changes nothing; Java keeps a broker without address",
    "compressed and not announced": "some 5.x brokers compress and say they do not; Java cannot read them, we look at the bytes",
    "older state: route of T1": _REFUSED,
    "slave is master: route of T1": _REFUSED,
    **{f"no fields: {code}": _MISSING for code in (100, 101, 102, 104, 105, 205, 216, 217, 219, 224, 327, 901)},
}
"""Label -> why we answer otherwise."""
