"""The name server's keys: those of the jars, typed, checked, listed, changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_impl.namesrv.config import AT_START, NamesrvConfig, keys, shown_keys
from broker_impl.namesrv.effective_properties import EffectiveProperties
from broker_impl.properties import BadConfig

TRUTH = Path(__file__).parents[2] / "conformance" / "truth" / "5.5.0.json"
HOME = "/home/somebody"


def config(**properties: str) -> NamesrvConfig:
    return NamesrvConfig(properties, user_home=HOME)


def test_keys_types_and_defaults_are_those_of_the_jars() -> None:
    truth = json.loads(TRUTH.read_text(encoding="utf-8"))["configuration"]
    rows = {(key.owner, key.name): key for key in keys().values()}
    wanted = {
        (owner, name): row
        for owner in ("NettyClientConfig", "NettyServerConfig", "NamesrvConfig")
        for name, row in truth[owner]["keys"].items()
    }
    hidden = {
        ("NettyClientConfig", name)
        for _, name in wanted
        if ("NettyServerConfig", name) in wanted and ("NettyClientConfig", name) in wanted
    }
    assert rows.keys() == wanted.keys() - hidden
    for place, key in rows.items():
        row = wanted[place]
        assert key.type == row["type"], place
        if "depends_on" in row:
            assert key.default is None, place
            assert key.derived is not None, place
        else:
            assert key.default == (str(row["default"]).lower() if isinstance(row["default"], bool) else str(row["default"])), (
                place
            )


def test_every_key_without_effect_says_why_and_every_other_is_an_attribute() -> None:
    effective = {key.attribute for key in shown_keys().values() if key.status == "effective"}
    assert effective == set(EffectiveProperties.__annotations__)
    assert all(key.why for key in keys().values() if key.status != "effective")


def test_defaults_are_typed() -> None:
    plain = config()
    assert (plain.listen_port, plain.bind_address) == (9876, "127.0.0.1")
    assert plain.kv_config_path == f"{HOME}/namesrv/kvConfig.json"
    assert plain.config_store_path == f"{HOME}/namesrv/namesrv.properties"
    assert plain.return_order_topic_config_to_broker is True
    assert plain.scan_not_active_broker_interval == 5000
    assert "rocketmqHome" not in plain.values()
    assert NamesrvConfig({}, user_home=HOME, rocketmq_home="/opt/x").values()["rocketmqHome"] == "/opt/x"


def test_values_are_listed_as_java_lists_them() -> None:
    values = config(orderMessageEnable="TRUE", listenPort="0", own="x", connectTimeoutMillis="5").values()
    assert values["orderMessageEnable"] == "true"
    assert values["listenPort"] == "0"
    assert values["own"] == "x"
    assert values["connectTimeoutMillis"] == "5"
    assert len(values) == 22 + 18 - 1 + 2


def test_a_configuration_file_is_what_gets_written() -> None:
    settings = NamesrvConfig({"configStorePath": "/elsewhere"}, user_home=HOME, config_file="/etc/ns.conf")
    assert settings.config_store_path == "/etc/ns.conf"
    assert Path(NamesrvConfig({}, config_file="ns.conf").config_store_path).is_absolute()
    assert config(kvConfigPath="/kv.json").kv_config_path == "/kv.json"
    assert config(kvConfigPath=" ").kv_config_path == f"{HOME}/namesrv/kvConfig.json"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("listenPort", "x", "whole number"),
        ("listenPort", "65536", "0 to 65535"),
        ("listenPort", "-1", "0 to 65535"),
        ("listenPort", "", "whole number"),
        ("listenPort", "1_0", "whole number"),
        ("scanNotActiveBrokerInterval", "0", "from 1"),
        ("serverChannelMaxIdleTimeSeconds", "99999999999", "whole number"),
        ("enableTopicList", "yes", "true or false"),
        ("clusterTest", "true", "another environment"),
        ("enableControllerInNamesrv", "true", "no controller"),
    ],
)
def test_what_cannot_be_started_with(key: str, value: str, said: str) -> None:
    with pytest.raises(BadConfig, match=said) as error:
        config(**{key: value})
    [fault] = error.value.faults
    assert fault.startswith((f"{key}={value!r}: ", f"{key}={value} is refused: "))


def test_what_is_reported() -> None:
    settings = config(
        lisenPort="1", serverWorkerThreads="9", serverSelectorThreads="3", connectTimeoutMillis="1", clusterTest="false"
    )
    assert settings.unknown == {"lisenPort": "1", "connectTimeoutMillis": "1"}
    unknown, workers, timeout = settings.notices
    assert unknown == "unknown property lisenPort (near: listenPort)"
    assert workers.startswith("property serverWorkerThreads=9 has no effect: ")
    assert timeout.startswith("property connectTimeoutMillis=1 has no effect: ")


def test_updates_take_what_fits() -> None:
    settings = config(mine="1", connectTimeoutMillis="5")
    changed = settings.change(
        {
            "mine": "2",
            "yours": "3",
            "waitSecondsForService": "abc",
            "enableTopicList": "false",
            "connectTimeoutMillis": "6",
            "scanNotActiveBrokerInterval": "0",
        }
    )
    values = settings.values()
    assert (values["mine"], values["enableTopicList"], values["connectTimeoutMillis"]) == ("2", "false", "6")
    assert (values["waitSecondsForService"], values["scanNotActiveBrokerInterval"]) == ("45", "5000")
    assert "yours" not in values
    assert len(changed.passed_over) == 2
    assert changed.names == {"mine", "enableTopicList", "connectTimeoutMillis"}
    assert not settings.enable_topic_list
    changed = settings.change({"scanNotActiveBrokerInterval": "7"})
    assert settings.later(changed.names) == ["scanNotActiveBrokerInterval"]
    assert settings.scan_not_active_broker_interval == 5000
    values = settings.values()
    assert (values["scanNotActiveBrokerInterval"], values["listenPort"]) == ("7", AT_START["listenPort"])
    with pytest.raises(BadConfig, match="no controller"):
        settings.change({"enableTopicList": "true", "enableControllerInNamesrv": "true"})
    assert settings.values() == values


def test_the_black_list_is_javas_and_what_is_added() -> None:
    settings = config(configBlackList="orderMessageEnable")
    for key in ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "orderMessageEnable"):
        with pytest.raises(BadConfig, match="black list") as refused:
            settings.change({"enableTopicList": "false", key: "x"})
        assert refused.value.forbidden
    assert settings.enable_topic_list


def test_a_change_is_taken_back_whole() -> None:
    settings = config(mine="1", orderMessageEnable="true")
    before, undo = settings.values(), settings.way_back()
    assert settings.change({"mine": "2", "orderMessageEnable": "false"}).names == {"mine", "orderMessageEnable"}
    assert settings.values() != before
    undo()
    assert settings.values() == before
    assert settings.order_message_enable
