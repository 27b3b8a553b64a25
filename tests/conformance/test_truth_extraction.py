"""The parts of the truth extractor that need no Java, on the kind of input that Java gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.truth import HERE, VERSIONS, load
from conformance.truth.extract import mark, pretty, registered, switched

REGISTRATION = """\
  public void registerProcessor();
    Code:
       0: aload_0
       1: getfield      #1                  // Field remotingServerMap:Ljava/util/Map;
       4: astore_1
      54: aload_1
      55: bipush        10
      57: aload_0
      58: getfield      #152                // Field sendMessageProcessor:Lorg/example/Processor;
      65: invokeinterface #564,  4          // InterfaceMethod org/example/Server.registerProcessor:(ILorg/example/Processor;)V
      70: aload_2
      71: sipush        310
      74: aload_0
      82: invokeinterface #564,  4          // InterfaceMethod org/example/Server.registerProcessor:(ILorg/example/Processor;)V
      90: getfield      #23                 // Field fastRemotingServer:Lorg/example/Server;
      91: ldc           #35                 // int 200073
      99: invokeinterface #34,  4           // InterfaceMethod org/example/Server.registerProcessor:(ILorg/example/Processor;)V
     103: bipush        99
     110: invokeinterface #34,  4           // InterfaceMethod org/example/Server.registerDefaultProcessor:(Lorg/example/P;)V
""".splitlines()


@pytest.mark.parametrize(
    ("server", "codes"), [({"aload_1"}, {10}), ({"aload_2", "fastRemotingServer"}, {310, 200073}), ({"aload_3"}, set())]
)
def test_registered_codes_by_server(server: set[str], codes: set[int]) -> None:
    assert registered(REGISTRATION, lambda loaded: loaded in server) == codes


def test_switch() -> None:
    lines = ["   4: lookupswitch  { // 3", "          17: 600", "        -1: 607", "      200056: 621", "   default: 1104"]
    assert switched(lines) == {17, -1, 200056}


@pytest.mark.parametrize(
    ("value", "others", "expected"),
    [
        (4, {"clock": 4, "processors": 4}, {"default": 4}),
        ("vm", {"clock": "vm"}, {"depends_on": "host"}),
        (17, {"clock": 18, "processors": 19}, {"depends_on": "clock"}),
        (8, {"clock": 8, "processors": 32}, {"depends_on": "processors", "default": {"4": 8, "16": 32}}),
        ("/one/x", {"user.home": "/two/x"}, {"depends_on": "user.home", "default": {"here": "/one/x", "there": "/two/x"}}),
    ],
)
def test_what_a_default_depends_on(value: Any, others: dict[str, Any], expected: dict[str, Any]) -> None:
    entry = {"default": value}
    mark(entry, {name: {"default": other} for name, other in others.items()}, ["vm", "127.0.0.1"])
    assert entry == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_the_committed_files_are_as_the_extractor_spells_them(version: str) -> None:
    """Nobody has edited them by hand (or not as carefully)."""
    text = (HERE / f"{version}.json").read_text(encoding="utf-8")
    assert pretty(json.loads(text)) + "\n" == text
    assert load(version)["made_by"] == f"python -m conformance.truth {version}"


def test_no_default_is_of_the_machine_that_ran_it() -> None:
    for version in VERSIONS:
        for row in load(version)["configuration"].values():
            for key, entry in row["keys"].items():
                assert not ("/home" in str(entry.get("default")) and "depends_on" not in entry), (version, key)
