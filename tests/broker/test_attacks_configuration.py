"""Attacks through the configuration from afar: forbidden keys, values that become keys, paths, secrets.  Numbered as in
docs/attacks.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_impl.config import BrokerConfig
from broker_impl.config_keys import keys
from broker_impl.properties import read_properties
from rmq_wire.headers.configuration import UpdateBrokerConfig
from tests.broker.attack_checks import GOOD_CHANGE, check_secrets_are_masked, configured, unchanged
from tests.broker.siege import files_below, siege
from tests.support.loops import each

# 36: a forbidden key among good ones


@pytest.mark.parametrize(
    "key", ["brokerConfigPath", "rocketmqHome", "configBlackList", "b\\u0072okerConfigPath", " brokerConfigPath"]
)
@pytest.mark.parametrize("first", [True, False])
def test_attack_36_a_black_listed_key_among_good_ones(tmp_path: Path, key: str, first: bool) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        bad = f"{key}=/tmp/evil\n".encode()
        unchanged(broker, bad + GOOD_CHANGE if first else GOOD_CHANGE + bad, 16)


def test_attack_36_what_the_operator_added_to_the_black_list(tmp_path: Path) -> None:
    with siege(tmp_path, path=configured(tmp_path), configBlackList="maxMessageSize;brokerPermission") as broker:
        unchanged(broker, b"brokerPermission=2\n", 16)
        unchanged(broker, b"defaultTopicQueueNums=3\nmaxMessageSize=1\n", 16)


# 37: a value that would be a key


@pytest.mark.parametrize(
    "body",
    [
        b"namesrvAddr=x:1\\nbrokerConfigPath=/tmp/evil",
        b"namesrvAddr=x:1\\rbrokerConfigPath=/tmp/evil",
        b"namesrvAddr=x:1\\u000abrokerConfigPath=/tmp/evil",
        b"namesrvAddr=x:1\\u000dbrokerConfigPath=/tmp/evil",
        b"unknown=x\\nbrokerConfigPath=/tmp/evil",
        b"un\\nknown=x",
        b"maxMessageSize\\n=1",
    ],
)
def test_attack_37_a_line_break_in_a_value(tmp_path: Path, body: bytes) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        unchanged(broker, GOOD_CHANGE + body, 29)


@pytest.mark.parametrize(
    "text", ["x\\\\", "\\u0085y", "\\u2028y", "\\u0000y", "a=b:c#d!e", " x ", "\\t", "caf\\u00e9", "\\ud83d\\ude00"]
)
def test_attack_37_what_a_value_holds_stays_in_it(tmp_path: Path, text: str) -> None:
    """After the change the file reads back as what the broker shows, and no key appeared."""
    path = configured(tmp_path)
    with siege(tmp_path, path=path) as broker:
        keys_before = set(read_properties(path.read_bytes()))
        answer = broker.connect().ask(
            UpdateBrokerConfig(), GOOD_CHANGE + f"msgTraceTopicNamespace={text}\nregionId=r{text}".encode()
        )
        if answer.code == 0:
            entries = read_properties(path.read_bytes())
            assert entries["regionId"] == broker.node.config.text("regionId")
            assert entries["maxMessageSize"] == "4194305"
            assert set(entries) <= keys_before | set(keys())
            BrokerConfig(entries)


# 38: keys that count at the start


COUNTS_AT_THE_START = (
    "storePathRootDir=/tmp/evil",
    "storePathCommitLog=/tmp/evil",
    "storePathDLedgerCommitLog=/tmp/evil",
    "storePathBrokerIdentity=/tmp/evil",
    "readOnlyCommitLogStorePaths=/tmp/evil",
    "authConfigPath=/tmp/evil",
    "messageStorePlugIn=evil.Plugin",
    "authenticationProvider=evil.Provider",
    "authorizationProvider=evil.Provider",
    "authenticationMetadataProvider=evil.P",
    "authorizationMetadataProvider=evil.P",
    "authenticationStrategy=evil.S",
    "authenticationEnabled=false",
    "authorizationEnabled=false",
    "authenticationWhitelist=1,2,3",
    "aclEnable=false",
    "initAuthenticationUser={}",
    "innerClientAuthenticationCredentials={}",
    "useTLS=true",
    "metricsGrpcExporterTarget=http://evil",
    "metricsGrpcExporterHeader=a:b",
    "metricsPromExporterHost=0.0.0.0",
    "metricsPromExporterPort=1",
    "socksProxyConfig={}",
    "bindAddress=0.0.0.0",
    "mappedFileSizeCommitLog=1024",
    "mappedFileSizeConsumeQueue=20",
    "maxHashSlotNum=1",
    "maxIndexNum=1",
    "storeType=defaultRocksDB",
    "brokerRole=SLAVE",
    "enableDLegerCommitLog=true",
    "enableControllerMode=true",
    "messageDelayLevel=1s",
    "timerWheelEnable=false",
)


def test_attack_38_what_counts_at_the_start_is_not_changed_from_afar(tmp_path: Path) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        each(COUNTS_AT_THE_START, lambda line: unchanged(broker, GOOD_CHANGE + line.encode(), 16))


def test_attack_38_every_path_class_and_secret_is_in_that_list() -> None:
    """Whatever holds text and has an effect may name something; what may be changed all the same is listed here."""
    free = {key.name for key in keys().values() if key.type == "String" and key.status == "effective" and not key.start_only}
    listed = {"brokerIP1", "brokerIP2", "defaultMessageRequestMode", "deleteWhen", "flushDiskType", "namesrvAddr", "regionId"}
    assert free == listed


def test_attack_38_only_the_file_of_the_start_is_written(tmp_path: Path) -> None:
    """Replaced in one step, with a backup beside it; a broker that was started without a file writes none."""
    path = configured(tmp_path)
    with siege(tmp_path, path=path) as broker:
        before = files_below(broker.scratch)
        assert broker.connect().ask(UpdateBrokerConfig(), GOOD_CHANGE).code == 0
        after = files_below(broker.scratch)
        assert {name for name in after if after[name] != before.get(name)} == {"conf/broker.conf", "conf/broker.conf.bak"}
        assert after["conf/broker.conf.bak"] == before["conf/broker.conf"]
        assert b"maxMessageSize=4194305" in after["conf/broker.conf"]
        assert broker.lines.about("configuration changed by", "maxMessageSize")


def test_attack_38_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    with siege(tmp_path) as broker:
        before = files_below(broker.scratch)
        assert broker.connect().ask(UpdateBrokerConfig(), GOOD_CHANGE).code == 0
        assert files_below(broker.scratch) == before


def test_attack_38_a_file_that_became_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path, precious = configured(tmp_path), tmp_path / "precious"
    with siege(tmp_path, path=path) as broker:
        precious.write_text("precious")
        path.unlink()
        path.symlink_to(precious)
        answer = broker.connect().ask(UpdateBrokerConfig(), GOOD_CHANGE)
        assert precious.read_text() == "precious"
        assert answer.code == 1 or not path.is_symlink()


@pytest.mark.parametrize(
    "body",
    [
        b"maxMessageSize",
        b"maxMessageSize=",
        b"maxMessageSize=-1",
        b"maxMessageSize=1_000",
        b"maxMessageSize=1e9",
        b"maxMessageSize=99999999999",
        b"autoCreateTopicEnable=yes",
        b"flushDiskType=NEVER",
        b"maxMessageSize=" + b"9" * 10_000,
    ],
)
def test_attack_38_values_that_are_none(tmp_path: Path, body: bytes) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        unchanged(broker, b"defaultTopicQueueNums=3\n" + body, 29)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"a=\\u12", b"a=\\uzzzz", b"x" * (2 << 20)], ids=["latin", "cut", "no-hex", "2-MiB"]
)
def test_attack_38_bodies_that_are_no_properties(tmp_path: Path, body: bytes) -> None:
    with siege(tmp_path, path=configured(tmp_path)) as broker:
        unchanged(broker, body, 1)


# 39: secrets


def test_attack_39_secrets_are_not_answered(tmp_path: Path) -> None:
    """Server bug V10."""
    path = configured(tmp_path)
    path.write_text("initAuthenticationUser={}\nmySecretKey=open sesame\nsome.password=open sesame\naccessKey=open sesame\n")
    settings = {
        **read_properties(path.read_bytes()),
        "innerClientAuthenticationCredentials": '{"accessKey":"a","secretKey":"open sesame"}',
    }
    with siege(tmp_path, path=path, **settings) as broker:
        check_secrets_are_masked(broker)
