"""Extract constants, headers, configuration defaults and answered codes out of the stock jars into `VERSION.json`.

The Java program `tests/java/truth/Truth.java` reads everything that reflection can see.  It runs several times, each time with
one circumstance changed (processors, home directory, ...), and a default that moves with one is recorded as depending on it
instead of as a value of the machine that happened to run it.  Which codes a role answers stands only in method bodies, so
that is read off the disassembly (`javap`): the switch of the default processors and the calls of `registerProcessor`.
`tests/java/truth/Bodies.java` tries on 5.5.0's own classes how JSON bodies are read that are spelled otherwise than Java does.
The output is sorted and has one leaf per line: a new version shows as a readable diff.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.subjects.jars import library
from conformance.subjects.java import java_command, javac_command
from conformance.truth import BODIES, HERE, REFUSED, VERSIONS

JAVA: Final = HERE.parent.parent / "tests" / "java"
DEPENDS_ON_CLOCK: Final = "clock"
DEPENDS_ON_HOST: Final = "host"


class Circumstance(NamedTuple):
    """What is different in one run: options of the JVM, and the environment variable ROCKETMQ_HOME."""

    processors: int = 4
    heap: str = "512m"
    user_home: str = "/home/one"
    rocketmq_home: str = "/rocketmq/one"


USUAL: Final = Circumstance()
CHANGED: Final[Mapping[str, Circumstance]] = {
    DEPENDS_ON_CLOCK: USUAL,
    "processors": USUAL._replace(processors=16),
    "heap": USUAL._replace(heap="256m"),
    "user.home": USUAL._replace(user_home="/home/two"),
    "ROCKETMQ_HOME": USUAL._replace(rocketmq_home="/rocketmq/two"),
}
"""The second run of the same circumstance finds what depends on the clock alone."""


READ_BODIES: Final = (
    *("HeartbeatData", "CheckClientRequestBody", "LockBatchRequestBody", "UnlockBatchRequestBody", "CreateTopicListRequestBody"),
    *("SubscriptionGroupList", "QueryAssignmentRequestBody", "SetMessageRequestModeRequestBody", "ResetOffsetBody"),
    *("GetConsumerStatusBody", "ConsumerRunningInfo", "ConsumeMessageDirectlyResult"),
    *("RegisterBrokerBody", "TopicRouteData", "DataVersion", "KVTable", "ClusterInfo", "LockBatchResponseBody"),
    "RemotingCommand",
    *("GetConsumerListByGroupResponseBody", "GetBrokerMemberGroupResponseBody", "SubscriptionGroupWrapper"),
    *(
        "ConsumerOffsetSerializeWrapper",
        "broker.schedule.DelayOffsetSerializeWrapper",
        "namesrv.kvconfig.KVConfigSerializeWrapper",
    ),
)
"""Java's classes of the JSON that others send us; those that they hold come with them."""


def extract(names: Sequence[str]) -> int:
    """Write the truth of each version, or of the bodies (all when none is named); returns a process exit status."""
    known = (*VERSIONS, BODIES)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such truth: {', '.join(unknown)} (there are {', '.join(known)})", file=sys.stderr)
        return 2
    for name in names or known:
        (HERE / f"{name}.json").write_text(render(name), encoding="utf-8")
        print(f"{name}.json")
    return 0


def render(name: str) -> str:
    """The text of one file, extracted now.  Brings the jars first where they are not there."""
    version = VERSIONS[0] if name == BODIES else name
    truth: dict[str, Any] = {"version_of_the_jars": version, "made_by": f"python -m conformance.truth {name}"}
    jars = _jars(version)
    if name == BODIES:
        return pretty(truth | _bodies(jars)) + "\n"
    truth |= _reflected(jars)
    truth["answers"] = _answered(jars)
    return pretty(truth) + "\n"


def _jars(version: str) -> list[str]:
    """The class path of one version.  4.9.8 was published without its servers: their own classes are taken from 4.9.7."""
    server = "4.9.7" if version == "4.9.8" else version
    own = sorted(library(version).glob("*.jar"))
    names = {_artifact(jar) for jar in own}
    return [str(jar) for jar in own + [j for j in sorted(library(server).glob("*.jar")) if _artifact(j) not in names]]


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d[\w.]*\.jar$", "", jar.name)


def _bodies(jars: Sequence[str]) -> dict[str, Any]:
    """Types that are read alike stand together; of each the spellings that are refused, and what becomes of the others."""
    with _compiled("Bodies", jars) as class_path:
        found = _run(class_path, USUAL, "Bodies", *READ_BODIES)
    alike: dict[str, dict[str, Any]] = {}
    for name, read in sorted(found["types"].items()):
        row = alike.setdefault(json.dumps(read), {"types": []})
        row["types"].append(name)
        row["refused"] = [given for given, value in read.items() if value == REFUSED]
        row["read"] = {given: value for given, value in read.items() if value != REFUSED}
    return {**found, "types": list(alike.values())}


def _reflected(jars: Sequence[str]) -> dict[str, Any]:
    with _compiled("Truth", jars) as class_path:
        usual = _run(class_path, USUAL, "Truth")
        others = {name: _run(class_path, circumstance, "Truth") for name, circumstance in CHANGED.items()}
    host: list[str] = usual.pop("host")
    for header, row in usual["headers"].items():
        for at, field in enumerate(row["fields"]):
            mark(field, {name: other["headers"][header]["fields"][at] for name, other in others.items()}, host)
    for kind, row in usual["configuration"].items():
        for key, entry in row["keys"].items():
            mark(entry, {name: other["configuration"][kind]["keys"][key] for name, other in others.items()}, host)
    return usual


@contextmanager
def _compiled(program: str, jars: Sequence[str]) -> Iterator[str]:
    """A class path with the jars and the program in it."""
    with tempfile.TemporaryDirectory() as classes:
        source = JAVA / "truth" / f"{program}.java"
        compiler = javac_command(java_command())
        subprocess.run([*compiler, "-cp", os.pathsep.join(jars), "-d", classes, source], check=True)
        yield os.pathsep.join([*jars, classes])


def _run(class_path: str, circumstance: Circumstance, *program: str) -> dict[str, Any]:
    options = [
        f"-XX:ActiveProcessorCount={circumstance.processors}",
        f"-Xmx{circumstance.heap}",
        f"-Duser.home={circumstance.user_home}",
        "-Dfile.encoding=UTF-8",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ROCKETMQ", "NAMESRV"))}
    environment["ROCKETMQ_HOME"] = circumstance.rocketmq_home
    done = subprocess.run(
        ["java", *options, "-cp", class_path, *program], env=environment, stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def mark(entry: dict[str, Any], others: Mapping[str, Mapping[str, Any]], host: Sequence[str]) -> None:
    """Replace a default that is a value of this machine, this moment or these circumstances by what it depends on."""
    value = entry.get("default")
    if isinstance(value, str) and value in host:
        entry["depends_on"] = DEPENDS_ON_HOST
        del entry["default"]
        return
    for name, other in others.items():
        if other.get("default") == value:
            continue
        entry["depends_on"] = name
        if name == DEPENDS_ON_CLOCK:
            del entry["default"]
        elif name == "processors":
            entry["default"] = {str(USUAL.processors): value, str(CHANGED[name].processors): other["default"]}
        else:
            entry["default"] = {"here": value, "there": other["default"]}
        return


_LOAD = re.compile(r"^\s*\d+: (?:(aload_\d|aload +\d+)|getfield .*// Field (\w+):.*)$")
_PUSH = re.compile(r"^\s*\d+: (?:bipush +(-?\d+)|sipush +(-?\d+)|iconst_(\d)|ldc(?:_w)? .*// int (-?\d+))\s*$")
_CASE = re.compile(r"^\s*(-?\d+): \d+$")


def _answered(jars: Sequence[str]) -> dict[str, list[int]]:
    """Which codes each role answers: `broker` (main port), `broker_fast` (listenPort - 2), `name_server`, `client`."""
    own = [jar for jar in jars if Path(jar).name.startswith("rocketmq-")]

    def body(class_name: str, method: str) -> list[str]:
        return _method(own, f"org.apache.rocketmq.{class_name}", method)

    admin = switched(body("broker.processor.AdminBrokerProcessor", "RemotingCommand processRequest("))
    registration = body("broker.BrokerController", "void registerProcessor()")
    main = registered(registration, lambda server: server in ("aload_1", "remotingServer"))
    fast = registered(registration, lambda server: server in ("aload_2", "fastRemotingServer"))
    names = switched(body("namesrv.processor.DefaultRequestProcessor", "RemotingCommand processRequest("))
    routes = registered(body("namesrv.NamesrvController", "void registerProcessor()"), lambda _: True)
    client = registered(body("client.impl.MQClientAPIImpl", "MQClientAPIImpl("), lambda _: True)
    return {
        "broker": sorted(admin | main),
        "broker_fast": sorted(admin | fast),
        "name_server": sorted(names | routes),
        "client": sorted(client),
    }


def _method(jars: Sequence[str], class_name: str, method: str) -> list[str]:
    """The disassembled lines of all methods of a class whose declaration contains the text."""
    command = ["javap", "-c", "-p", "-cp", os.pathsep.join(jars), class_name]
    listing = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    bodies = [part for part in listing.split("\n\n") if method in part.strip("\n").partition("\n")[0] or f"\n  {method}" in part]
    if not bodies:
        raise LookupError(f"{class_name} has no method {method!r}")
    return "\n".join(bodies).splitlines()


def switched(lines: Sequence[str]) -> set[int]:
    """The cases of the lookup switch in these lines."""
    return {int(case[1]) for line in lines if (case := _CASE.match(line))}


def registered(lines: Sequence[str], wanted: Callable[[str], bool]) -> set[int]:
    """The codes handed to `registerProcessor` of a server that is wanted, known by how it is loaded right before the code."""
    found: set[int] = set()
    loaded, server, code = "", "", None
    for line in lines:
        if push := _PUSH.match(line):
            server, code = loaded, int(next(group for group in push.groups() if group is not None))
        elif load := _LOAD.match(line):
            loaded = load[1] or load[2]
        elif "registerProcessor:(I" in line and code is not None:
            if wanted(server):
                found.add(code)
            code = None
    return found


def pretty(value: Any, indent: str = "") -> str:
    """JSON with sorted keys and a line per leaf object or short list."""
    if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
        items = [f"{indent} {json.dumps(key)}: {pretty(value[key], indent + ' ')}" for key in sorted(value)]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, dict) and len(value) > 8:
        items = [f"{indent} {json.dumps(key)}: {json.dumps(value[key])}" for key in sorted(value)]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        return "[\n" + ",\n".join(f"{indent} {pretty(item, indent + ' ')}" for item in value) + f"\n{indent}]"
    return json.dumps(value, sort_keys=True)
