"""The configuration: the table of keys beside the truth, reading, refusing, changing, writing back."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_impl.config import BrokerConfig, Machine
from broker_impl.config_keys import MASK, Key, keys, snake_case, suggestions
from broker_impl.dev_differences import DEV_DIFFERENCES, DEV_FREE_BYTES_MIN, measured_disk_ratios
from broker_impl.effective_properties import EffectiveProperties
from broker_impl.properties import BadConfig, read_pair, read_properties
from broker_impl.store_settings import store_settings
from tests.support.loops import each

ROOT = Path(__file__).parents[2]
TRUTH: dict[str, Any] = json.loads((ROOT / "conformance/truth/5.5.0.json").read_text())["configuration"]
OBJECTS = ("BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig")
LATER_SET = {"listenPort": "10911"}
"""`BrokerStartup` sets it before it reads the file."""
ENUMERATIONS = {"BrokerRole", "FlushDiskType", "MessageRequestMode", "MetricsExporterType"}


# -- the table


def test_every_key_of_the_reference_is_there_and_no_other() -> None:
    truth = {name for owner in OBJECTS for name in TRUTH[owner]["keys"]}
    assert keys().keys() == truth
    assert len([key for key in keys().values() if key.owner != "AuthConfig"]) == 497


@pytest.mark.parametrize("owner", OBJECTS)
def test_types_and_defaults_are_the_references(owner: str) -> None:
    for name, row in TRUTH[owner]["keys"].items():
        key = keys()[name]
        if key.owner not in (owner, row.get("from")):
            assert key.also == owner or owner in ("BrokerConfig",), name
            continue
        assert key.type == ("String" if row["type"] in ENUMERATIONS else row["type"]), name
        assert key.settable == row.get("settable", True), name
        if key.derived is None:
            java = row["default"]
            text = None if java is None else str(java).lower() if isinstance(java, bool) else str(java)
            assert key.default == LATER_SET.get(name, text), name
        if "depends_on" in row:
            assert key.derived is not None, name


def test_every_default_can_be_read() -> None:
    for key in keys().values():
        if key.default is not None:
            key.read(key.default)


def test_a_key_without_effect_says_why() -> None:
    for key in keys().values():
        assert (key.why is not None) == (key.status != "effective"), key.name
        assert (key.allowed is not None) == (key.status == "refused"), key.name


def test_refused_keys_start_with_their_default() -> None:
    for key in keys().values():
        if key.status == "refused":
            assert (key.default or "") in (key.allowed or ()), key.name
            assert key.start_only, key.name


def test_attributes_are_the_effective_keys() -> None:
    assert set(EffectiveProperties.__annotations__) == {key.attribute for key in keys().values() if key.status == "effective"}


def test_effective_keys_are_used() -> None:
    """Somebody besides the configuration reads each attribute; the store has those that are converted under the same name."""
    used: set[str] = set()
    for path in (path for room in ("broker_impl", "rmq_cli", "rmq_store") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
    effective = {key.attribute for key in keys().values() if key.status == "effective"}
    assert effective - used == set()


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ({"storePathCommitLog": "/a,/b", "readOnlyCommitLogStorePaths": "/b,/a"}, "read-only"),
        ({"readOnlyCommitLogStorePaths": "/a"}, "comma"),
        ({"mapperFileSizeBatchConsumeQueue": "100"}, "multiple of 46"),
    ],
)
def test_directories_and_sizes_that_cannot_be(entries: dict[str, str], fault: str) -> None:
    with pytest.raises(BadConfig, match=fault):
        config(**entries)


def test_a_commit_log_over_several_directories() -> None:
    found = store_settings(config(storePathCommitLog="/a,/b,/c", readOnlyCommitLogStorePaths="/b"))
    assert found.commit_log_directories == ("/a", "/c")
    assert found.read_only_commit_log_directories == ("/b",)


def test_names_become_attributes() -> None:
    assert snake_case("maxMessageSize") == "max_message_size"
    assert snake_case("brokerIP1") == "broker_ip1"


# -- reading


def config(**entries: str) -> BrokerConfig:
    return BrokerConfig({"brokerName": "b", **entries}, Machine(host_name="host", own_address="10.0.0.1", home="/home/u"))


def test_defaults_come_from_the_machine() -> None:
    found = BrokerConfig({}, Machine("host", "10.0.0.1", "/home/u", 4, None, "a:1;b:2"))
    assert (found.broker_name, found.broker_ip1, found.store_path_root_dir) == ("host", "10.0.0.1", "/home/u/store")
    assert found.name_servers == ("a:1", "b:2")
    assert (found.listen_port, found.fast_port, found.ha_listen_port) == (10911, 10909, 10912)
    assert found.text("pullMessageThreadPoolNums") == "24"
    assert found.notices == []


def test_values_are_typed() -> None:
    found = config(maxMessageSize=" 100 ", traceOn="FALSE", flushDiskType="SYNC_FLUSH", namesrvAddr="x:9876")
    assert found.max_message_size == 100
    assert found.trace_on is False
    assert found.flush_disk_type == "SYNC_FLUSH"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("maxMessageSize", "abc", "a whole number from 1 to 16777216"),
        ("maxMessageSize", "1_000", "a whole number"),
        ("maxMessageSize", "１", "a whole number"),
        ("maxMessageSize", "99999999999999999999999", "a whole number"),
        ("listenPort", "70000", "from 0 to 65534"),
        ("traceOn", "yes", "true or false"),
        ("flushDiskType", "sync", "one of SYNC_FLUSH, ASYNC_FLUSH"),
        ("timerRocksDBRollMaxTps", "1e", "a number"),
        ("messageDelayLevel", "1s 2x", "times like 1s 5s"),
        ("messageDelayLevel", "1s  5s", "times like 1s 5s"),
    ],
)
def test_a_bad_value_is_named(key: str, value: str, expected: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config(**{key: value})
    [fault] = caught.value.faults
    assert key in fault
    assert value in fault
    assert expected in fault


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerRole", "SLAVE"),
        ("brokerRole", "SYNC_MASTER"),
        ("enableControllerMode", "true"),
        ("storeType", "defaultRocksDB"),
        ("enableDLegerCommitLog", "true"),
        ("authenticationEnabled", "true"),
        ("authorizationEnabled", "true"),
        ("duplicationEnable", "true"),
        ("configManagerVersion", "v2"),
        ("useTLS", "true"),
    ],
)
def test_what_would_break_a_promise_is_refused(key: str, value: str) -> None:
    with pytest.raises(BadConfig, match=f"{key}={value} is refused: "):
        config(**{key: value})


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(BadConfig) as caught:
        config(maxMessageSize="x", brokerRole="SLAVE", brokerName="a/b", namesrvAddr="nowhere;x:" + "9" * 5_000)
    assert len(caught.value.faults) == 5


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\nb", "\x00", "x" * 250])
def test_a_broker_name_becomes_a_topic(name: str) -> None:
    if name == "..":
        config(brokerName=name)  # rmq_sys_SYNC_BROKER_MEMBER_.. is a harmless name; the topic `..` is not made
    else:
        with pytest.raises(BadConfig):
            BrokerConfig({"brokerName": name}, Machine(host_name=""))


def test_unknown_and_idle_keys_are_noticed() -> None:
    found = config(maxMesageSize="1", sendMessageThreadPoolNums="5", haMasterAddress="x:1", brokerId="3")
    unknown, pool, master, broker_id = found.notices
    assert "maxMesageSize" in unknown
    assert "maxMessageSize" in unknown
    assert "sendMessageThreadPoolNums=5 has no effect" in pool
    assert "haMasterAddress" in master
    assert "brokerId=3 becomes 0" in broker_id


def test_suggestions_ignore_case() -> None:
    assert suggestions("NAMESRVADDR", keys())[0] == "namesrvAddr"
    assert suggestions("xyzzy", keys()) == []


def test_any_free_port_moves_the_others() -> None:
    found = config(listenPort="0")
    found.listening_on(12345)
    assert (found.listen_port, found.ha_listen_port, found.text("listenPort")) == (12345, 12346, "12345")
    fixed = config(listenPort="0", haListenPort="7")
    fixed.listening_on(12345)
    assert fixed.ha_listen_port == 7


def test_properties_are_read_as_java_reads_them() -> None:
    assert read_properties(b"# c\n a = 1\\\n  2\n!x\nb:\\u0041 \nc d\n") == {"a": "12", "b": "A ", "c": "d"}
    with pytest.raises(BadConfig):
        read_properties(b"a=\\u00g0\n")


def test_pairs() -> None:
    assert read_pair("a= b=c ") == ("a", "b=c")
    for text in ("a", "=b", " =b"):
        with pytest.raises(BadConfig):
            read_pair(text)


def test_delay_levels() -> None:
    assert len(config().delay_levels) == 18
    assert config(messageDelayLevel="5ms 2s 1m 3h 1d").delay_levels == (5, 2_000, 60_000, 10_800_000, 86_400_000)


# -- changing


def test_a_change_reaches_the_attribute_and_the_listeners() -> None:
    found = config()
    heard: list[set[str]] = []
    found.on_update.append(heard.append)
    assert found.change({"shortPollingTimeMills": "7", "longPollingEnable": "TRUE", "nosuchkey": "1"}).names == {
        "shortPollingTimeMills"
    }
    assert found.short_polling_time_mills == 7
    assert heard == [{"shortPollingTimeMills"}]
    assert "shortPollingTimeMills=7\n" in found.listing()
    assert "nosuchkey" not in found.listing()


def test_what_was_taken_at_the_start_changes_at_the_next() -> None:
    found = config()
    assert found.change({"maxMessageSize": "7"}).names == {"maxMessageSize"}
    assert found.max_message_size == 4194304
    assert "maxMessageSize=7\n" in found.listing()
    assert BrokerConfig(read_properties(found.file_text())).max_message_size == 7


@pytest.mark.parametrize("key", ["brokerConfigPath", "rocketmqHome", "configBlackList", "traceOn"])
def test_a_black_listed_key_spoils_the_whole_change(key: str) -> None:
    found = config(configBlackList="configBlackList;traceOn")
    with pytest.raises(BadConfig, match=r"Can not update config in black list\.") as caught:
        found.change({"shortPollingTimeMills": "7", key: "false"})
    assert caught.value.forbidden
    assert found.short_polling_time_mills == 1000


def test_a_start_only_key_is_forbidden() -> None:
    each([key.name for key in keys().values() if key.start_only], forbidden)


def forbidden(key: str) -> None:
    found = config()
    with pytest.raises(BadConfig) as caught:
        found.change({"shortPollingTimeMills": "7", key: "1"})
    assert caught.value.forbidden
    assert found.short_polling_time_mills == 1000


def test_what_names_files_classes_and_secrets_is_start_only() -> None:
    dangerous = re.compile(
        r"path|plugin|provider|strategy|exportertarget|header$|mappedfilesize|maxhashslot|maxindexnum|usetls|auth"
        r"|storetype|role$|credential|^acl",
        re.IGNORECASE,
    )
    harmless = {"coldCtrStrategyEnable", "usePIDColdCtrStrategy", "brokerIP1", "namesrvAddr", "listenPort"}
    left = [key.name for key in keys().values() if dangerous.search(key.name) and not key.start_only and key.name not in harmless]
    assert left == []


@pytest.mark.parametrize("entries", [{"regionId": "a\nmaxMessageSize=1"}, {"regionId": "a\rb"}, {"a\nb": "c"}])
def test_a_line_break_in_a_value_is_refused(entries: dict[str, str]) -> None:
    found = config()
    with pytest.raises(BadConfig) as caught:
        found.change(entries)
    assert not caught.value.forbidden
    assert found.region_id == "DefaultRegion"


def test_a_bad_value_changes_nothing() -> None:
    found = config()
    with pytest.raises(BadConfig, match="maxMessageSize='x'") as caught:
        found.change({"defaultTopicQueueNums": "4", "maxMessageSize": "x"})
    assert not caught.value.forbidden
    assert found.default_topic_queue_nums == 8


# -- the listing and the file


def test_secrets_are_masked_in_the_listing_and_kept_in_the_file() -> None:
    found = config(
        initAuthenticationUser="{name}",
        innerClientAuthenticationCredentials="{key}",
        myPassword="p",
        other="q",
    )
    listing = dict(line.split("=", 1) for line in found.listing().splitlines())
    assert listing["initAuthenticationUser"] == MASK
    assert listing["innerClientAuthenticationCredentials"] == MASK
    assert listing["myPassword"] == MASK
    assert listing["other"] == "q"
    assert read_properties(found.file_text())["myPassword"] == "p"


slow = settings(deadline=None, max_examples=50)
texts = st.text(st.characters(codec="utf-8"), max_size=40)


@slow
@given(st.dictionaries(texts.filter(lambda text: text.strip() == text and text != ""), texts.map(str.strip), max_size=5))
def test_the_file_reads_back_as_it_was(extra: dict[str, str]) -> None:
    extra = {name: value for name, value in extra.items() if name not in keys()}
    found = config(regionId="C:\\new\\u0041 ü", **extra)
    back = read_properties(found.file_text())
    again = BrokerConfig(back, found.machine)
    assert again.region_id == "C:\\new\\u0041 ü"
    assert again.unknown == found.unknown
    assert again.file_text() == found.file_text()


def test_the_listing_is_sorted_and_has_no_nulls() -> None:
    lines = config().listing().splitlines()
    names = [line.partition("=")[0] for line in lines]
    assert names == sorted(names)
    assert "haMasterAddress" not in names
    assert not any(key.owner == "AuthConfig" and key.name in names for key in keys().values())


# -- what `rmq dev` sets


def test_dev_differences_are_lawful() -> None:
    settings = {name: found.value for name, found in DEV_DIFFERENCES.items() if found.value is not None}
    BrokerConfig(settings | measured_disk_ratios(100 << 30, 50 << 30))
    assert DEV_DIFFERENCES.keys() - settings.keys() == measured_disk_ratios(1, 0).keys()


@slow
@given(st.integers(1, 1 << 50), st.integers(0, 1 << 50))
def test_the_measured_disk_ratio_is_in_range(total: int, used: int) -> None:
    used = min(used, total)
    ratios = {name: int(text) for name, text in measured_disk_ratios(total, used).items()}
    warn = ratios["diskSpaceWarningLevelRatio"]
    assert 90 <= warn <= 99
    if total - used > DEV_FREE_BYTES_MIN + total // 100:
        assert used * 100 < warn * total


def test_a_key_is_a_plain_row() -> None:
    assert isinstance(keys()["maxMessageSize"], Key)
