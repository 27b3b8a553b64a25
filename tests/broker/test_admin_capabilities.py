"""Administration and client management through the engine: what hostile or odd requests do, and what they leave alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rmq_wire.command import Command
from rmq_wire.headers.clients import (
    ConsumeMessageDirectly,
    GetConsumerListByGroup,
    GetConsumerRunningInfo,
    Heartbeat,
    NotifyConsumerIdsChanged,
)
from rmq_wire.headers.configuration import GetBrokerConfig, UpdateBrokerConfig
from rmq_wire.headers.groups import DeleteSubscriptionGroup, UpdateAndCreateSubscriptionGroup
from rmq_wire.headers.locks import LockBatchMq
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.headers.stats import GetTopicStatsInfo
from rmq_wire.headers.topics import CreateTopicList, DeleteTopic, GetAllTopicConfig, GetTopicConfig
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import create_topic as create
from tests.support.requests import member_ids

SUCCESS, SYSTEM_ERROR, NO_PERMISSION, TOPIC_NOT_EXIST, GROUP_NOT_EXIST, INVALID = 0, 1, 16, 17, 26, 29
TIMEOUT = 207


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path / "store")
    yield made
    made.stop()


def beat(client: Client, *groups: str, topics: tuple[str, ...] = ("T",), client_id: str = "c@1") -> Command:
    consumers = [
        ConsumerData(
            group_name=group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            subscription_data_set=[SubscriptionData(topic=topic, sub_version=1) for topic in topics],
        )
        for group in groups
    ]
    return client.ask(Heartbeat(), HeartbeatData(client_id=client_id, consumer_data_set=consumers).encode())


def send_request(topic: str, queue_id: int = 0) -> SendMessageV2:
    return SendMessageV2(
        producer_group="P",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="UNIQ_KEY\x01" + "0" * 32 + "\x02",
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )


def send(client: Client, topic: str, queue_id: int = 0) -> str:
    """Its offset message id."""
    answer = client.ask(send_request(topic, queue_id), b"body")
    assert answer.code == SUCCESS, answer.remark
    return answer.ext_map()["msgId"]


# -- topics and their names (attacks 31 to 33)

BAD_NAMES = ["..", ".", "a/b", "a\\b", "a\x00b", "a\nb", "", " ", "x" * 128, "tópico", "%RETRY%" + "x" * 256, "a:b", "con.txt"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_topic_name_is_refused_before_any_path_exists(broker: Harness, name: str, tmp_path: Path) -> None:
    client = broker.connect()
    before = sorted(tmp_path.rglob("*"))
    for request, body in (
        (create(name), b""),
        (DeleteTopic(topic=name), b""),
        (CreateTopicList(), json.dumps({"topicConfigList": [{"topicName": "Fine"}, {"topicName": name}]}).encode()),
    ):
        assert client.ask(request, body).code == INVALID
    assert client.ask(GetTopicConfig(topic=name)).code == TOPIC_NOT_EXIST
    assert "Fine" not in broker.node.topics
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["..", "a/b", "g" * 121, "", "a\nb"])
def test_a_bad_group_name_makes_no_group_and_no_retry_topic(broker: Harness, name: str) -> None:
    client = broker.connect()
    assert client.ask(UpdateAndCreateSubscriptionGroup(), json.dumps({"groupName": name}).encode()).code == INVALID
    assert beat(client, name, "Good").code == SUCCESS
    assert name not in broker.node.groups
    assert "%RETRY%" + name not in broker.node.topics
    assert client.ask(GetConsumerListByGroup(consumer_group=name)).code == SYSTEM_ERROR
    assert client.ask(GetConsumerListByGroup(consumer_group="Good")).code == SUCCESS


@pytest.mark.parametrize("name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster", "rmq_sys_anything"])
def test_system_topics_are_left_alone(broker: Harness, name: str) -> None:
    client = broker.connect()
    assert client.ask(DeleteTopic(topic=name)).code == INVALID
    assert client.ask(create(name)).code == INVALID


@pytest.mark.parametrize("count", [-1, 16_385, 2**31 - 1])
def test_queue_numbers_have_a_limit(broker: Harness, count: int) -> None:
    client = broker.connect()
    assert client.ask(create("T", read_queue_nums=count)).code == INVALID
    assert client.ask(create("T", write_queue_nums=count)).code == INVALID
    assert "T" not in broker.node.topics


def test_deleting_a_topic_takes_its_queues_progress_and_pop_retry_topics(broker: Harness, tmp_path: Path) -> None:
    client = broker.connect()
    for name in ("T", "%RETRY%G_T", "%RETRY%G"):
        assert client.ask(create(name)).code == SUCCESS
    broker.node.topics.create_in_send_back("%RETRY%G+T", 1)
    send(client, "T")
    beat(client, "G")
    client.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=1))
    assert (tmp_path / "store/consumequeue/T").exists()
    assert client.ask(DeleteTopic(topic="T")).code == SUCCESS
    assert [name for name in broker.node.topics.table if name.startswith(("T", "%RETRY%")) and name != "TBW102"] == ["%RETRY%G"]
    assert broker.node.offsets.topics_of("G") == []
    assert broker.node.store.queue_bounds("T", 0) == (0, 0)


def test_a_created_topic_is_on_disk_when_the_answer_comes(broker: Harness, tmp_path: Path) -> None:
    client = broker.connect()
    client.ask(create("Durable"))
    assert b'"Durable"' in (tmp_path / "store/config/topics.json").read_bytes()
    send(client, "ByItself")
    assert b'"ByItself"' in (tmp_path / "store/config/topics.json").read_bytes()
    client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"DurableG"}')
    assert b'"DurableG"' in (tmp_path / "store/config/subscriptionGroup.json").read_bytes()


def test_a_topic_that_cannot_be_saved_is_not_acknowledged(broker: Harness, tmp_path: Path) -> None:
    client = broker.connect()
    (tmp_path / "store/config").mkdir(exist_ok=True)
    (tmp_path / "store/config/topics.json").mkdir()
    answer = client.ask(create("T"))
    assert answer.code == SYSTEM_ERROR
    assert "topics.json could not be written" in (answer.remark or "")
    (tmp_path / "store/config/topics.json").rmdir()
    assert client.ask(create("U")).code == SUCCESS


def test_a_one_way_request_is_checked_and_not_answered(broker: Harness) -> None:
    """Attack 10."""
    client = broker.connect()
    client.send_oneway(create("a/b"))
    client.send_oneway(create("OneWay"))
    client.send_oneway(DeleteTopic(topic="TBW102"))
    assert client.answers == {}
    assert "OneWay" in broker.node.topics
    assert "TBW102" in broker.node.topics


def test_topic_stats_of_many_queues_leave_others_time(broker: Harness) -> None:
    client = broker.connect()
    client.ask(create("Wide", read_queue_nums=2000, write_queue_nums=2000))
    send(client, "Wide", 1999)
    body = bytes(client.ask(GetTopicStatsInfo(topic="Wide")).body)
    assert body.count(b"maxOffset") == 2000
    assert body.count(b'"maxOffset":1') == 1


# -- heartbeats (attack 12) and notices


def test_a_heartbeat_cannot_name_a_hundred_thousand_groups(broker: Harness) -> None:
    client = broker.connect()
    many = [ConsumerData(group_name=f"G{number}") for number in range(1537)]
    assert client.ask(Heartbeat(), HeartbeatData(client_id="c", consumer_data_set=many).encode()).code == SYSTEM_ERROR
    producers = [ProducerData(group_name=f"P{number}") for number in range(1600)]
    assert client.ask(Heartbeat(), HeartbeatData(client_id="c", producer_data_set=producers).encode()).code == SYSTEM_ERROR
    topics = [SubscriptionData(topic=f"T{number}") for number in range(4097)]
    wide = [ConsumerData(group_name="G", subscription_data_set=topics)]
    assert client.ask(Heartbeat(), HeartbeatData(client_id="c", consumer_data_set=wide).encode()).code == SYSTEM_ERROR
    assert broker.node.clients.consumer_groups == {}
    assert len(broker.node.groups) == 8
    for part in (producers[:1200], producers[:1200]):
        assert client.ask(Heartbeat(), HeartbeatData(client_id="c", producer_data_set=part).encode()).code == SUCCESS
    assert client.ask(Heartbeat(), HeartbeatData(client_id="c", producer_data_set=producers[1100:]).encode()).code == SYSTEM_ERROR
    assert client.ask(Heartbeat(), HeartbeatData(client_id="c" * 1025).encode()).code == SYSTEM_ERROR


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b'{"consumerDataSet":5}', b"\xff\xfe", b'{"a":' * 1000])
def test_a_broken_heartbeat_is_an_error_and_no_more(broker: Harness, body: bytes) -> None:
    client = broker.connect()
    assert client.ask(Heartbeat(), body).code == SYSTEM_ERROR
    assert beat(client, "G").code == SUCCESS


def test_the_dialects_of_old_clients_are_understood(broker: Harness) -> None:
    client = broker.connect()
    body = (
        b'{\'clientID\':\'c\',\'consumerDataSet\':[{"groupName":"G","consumeType":"CONSUME_PASSIVELY","messageModel":'
        b'"CLUSTERING","subscriptionDataSet":[{"topic":"T","tagsSet":["a"],"codeSet":[97,],"subVersion":"1"}],"unitMode":null}],'
        b'"producerDataSet":null,"unknown":{"x":1}}'
    )
    assert client.ask(Heartbeat(), body).code == SUCCESS
    found = broker.node.clients.subscription("G", "T")
    assert found is not None
    assert (found.tags_set, found.sub_version) == (["a"], 1)


def test_members_hear_of_each_other(broker: Harness) -> None:
    one, two = broker.connect(), broker.connect()
    beat(one, "G", client_id="one")
    one.asked.clear()
    beat(two, "G", client_id="two")
    assert [command.code for command in one.asked] == [NotifyConsumerIdsChanged.code]
    assert one.asked[0].ext_map() == {"consumerGroup": "G"}
    assert one.asked[0].is_oneway
    listed = ConsumerIdList.read(two.ask(GetConsumerListByGroup(consumer_group="G")).body)
    assert listed.consumer_id_list == ["one", "two"]
    one.asked.clear()
    two.close()
    assert [command.code for command in one.asked] == [NotifyConsumerIdsChanged.code]
    retries = broker.node.topics.get("%RETRY%G")
    assert retries is not None
    assert (retries.read_queue_nums, retries.write_queue_nums, retries.perm) == (1, 1, 6)


def test_a_silent_client_is_closed_and_a_living_one_is_not(broker: Harness) -> None:
    silent, alive = broker.connect(), broker.connect()
    beat(silent, "G", client_id="silent")
    beat(alive, "G", client_id="alive")
    for _ in range(14):
        broker.driver.advance(10_000)
        beat(alive, "G", client_id="alive")
        if not silent.closed:  # busy, but not with heartbeats
            silent.ask(GetConsumerListByGroup(consumer_group="G"))
    assert silent.closed
    assert not alive.closed
    assert member_ids(broker.node.clients.consumer_group("G")) == ["alive"]


# -- progress (attack 29)


def test_a_commit_must_name_a_queue_and_an_offset_that_exist(broker: Harness) -> None:
    client = broker.connect()
    client.ask(create("T"))
    send(client, "T", 0)
    beat(client, "G")

    def commit(queue_id: int, offset: int, topic: str = "T", group: str = "G") -> int:
        return client.ask(UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)).code

    assert commit(0, 1) == SUCCESS
    assert commit(3, 0) == SUCCESS
    assert [commit(4, 0), commit(-5, 0), commit(10**6, 0), commit(0, 2), commit(0, -1), commit(1, 2**62)] == [INVALID] * 6
    assert commit(0, 0, topic="Nope") == TOPIC_NOT_EXIST
    assert commit(0, 0, group="Nobody") == GROUP_NOT_EXIST
    assert broker.node.offsets.queues("G", "T") == {0: 1, 3: 0}


def test_progress_in_a_queue_that_the_topic_no_longer_has_can_still_be_committed(broker: Harness) -> None:
    client = broker.connect()
    client.ask(create("T"))
    send(client, "T", 3)
    beat(client, "G")
    request = UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=3, commit_offset=1)
    assert client.ask(request).code == SUCCESS
    client.ask(create("T", read_queue_nums=1, write_queue_nums=1))
    assert client.ask(request).code == SUCCESS


def test_what_was_read_in_a_queue_just_before_the_topic_lost_it_is_kept(broker: Harness) -> None:
    client = broker.connect()
    client.ask(create("T"))
    send(client, "T", 3)
    beat(client, "G")
    client.ask(create("T", read_queue_nums=1, write_queue_nums=1))
    for queue_id, offset, code in ((3, 1, SUCCESS), (2, 0, INVALID)):
        request = UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id, commit_offset=offset)
        assert client.ask(request).code == code, "nothing was ever in queue 2"
    assert client.ask(QueryConsumerOffset(consumer_group="G", topic="T", queue_id=3)).ext_map() == {"offset": "1"}


def test_asking_makes_no_queue(broker: Harness, tmp_path: Path) -> None:
    client = broker.connect()
    for queue_id in (-1, 0, 10**6):
        assert client.ask(QueryConsumerOffset(consumer_group="G", topic="Nope", queue_id=queue_id)).code == 22
    assert broker.node.store.topics() == {}
    assert not list((tmp_path / "store").glob("consumequeue/*"))


def test_progress_is_written_every_five_seconds_and_at_a_stop(broker: Harness, tmp_path: Path) -> None:
    client = broker.connect()
    client.ask(create("T"))
    for _ in range(3):
        send(client, "T", 0)
    beat(client, "G")
    file = tmp_path / "store/config/consumerOffset.json"

    def commit(offset: int) -> None:
        assert client.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=offset)).code == 0

    def is_written(offset: int) -> bool:
        return b'"T@G":{\n\t\t\t0:%d' % offset in file.read_bytes()

    commit(1)
    broker.driver.advance(15_000)
    assert is_written(1)
    commit(2)
    assert not is_written(2)
    broker.driver.advance(5_000)
    assert is_written(2)
    commit(3)
    broker.restart()
    assert is_written(3)


# -- relayed questions (attack 11)


def test_running_info_is_relayed_as_it_is(broker: Harness) -> None:
    asker, consumer = broker.connect(), broker.connect()
    beat(consumer, "G", client_id="one")
    consumer.on_request = lambda command: None
    opaque = asker.send(GetConsumerRunningInfo(consumer_group="G", client_id="one", jstack_enable=True))
    [question] = [command for command in consumer.asked if command.code == GetConsumerRunningInfo.code]
    assert question.ext_map() == {"consumerGroup": "G", "clientId": "one", "jstackEnable": "true"}
    answer = b'{{"brokerName":"b"}:{}, "$ref":"$.x"}'
    consumer.raw(response_frame(question.opaque, 0, answer))
    assert bytes(asker.answers[opaque].body) == answer


def response_frame(opaque: int, code: int, body: bytes) -> bytes:
    from tests.support import remoting

    return remoting.frame(code, {}, body, opaque=opaque, flag=1)


def test_a_silent_consumer_costs_the_asker_a_timeout(broker: Harness) -> None:
    asker, consumer = broker.connect(), broker.connect()
    beat(consumer, "G", client_id="one")
    opaque = asker.send(GetConsumerRunningInfo(consumer_group="G", client_id="one"))
    broker.driver.advance(9_000)
    assert opaque not in asker.answers
    broker.driver.advance(2_000)
    assert asker.answers[opaque].code == TIMEOUT
    assert "consumer <G> <one> Timeout" in (asker.answers[opaque].remark or "")


def test_a_consumer_that_goes_away_or_answers_too_much_costs_an_error(broker: Harness) -> None:
    asker, consumer = broker.connect(), broker.connect()
    beat(consumer, "G", client_id="one")
    first = asker.send(GetConsumerRunningInfo(consumer_group="G", client_id="one"))
    question = consumer.asked[-1]
    consumer.raw(response_frame(question.opaque, 0, b"x" * ((4 << 20) + 1)))
    assert asker.answers[first].code == SYSTEM_ERROR
    second = asker.send(GetConsumerRunningInfo(consumer_group="G", client_id="one"))
    consumer.close()
    broker.driver.run()
    assert asker.answers[second].code == TIMEOUT
    assert asker.ask(GetConsumerRunningInfo(consumer_group="G", client_id="one")).code == SYSTEM_ERROR


def test_one_message_is_consumed_directly(broker: Harness) -> None:
    asker, consumer = broker.connect(), broker.connect()
    msg_id = send(asker, "T")
    beat(consumer, "G", client_id="one")
    opaque = asker.send(ConsumeMessageDirectly(consumer_group="G", client_id="one", msg_id=msg_id, topic="T"))
    question = consumer.asked[-1]
    assert question.ext_map()["brokerName"] == "broker-a"
    assert question.ext_map()["topicSysFlag"] == "0"
    assert b"body" in bytes(question.body)
    consumer.raw(response_frame(question.opaque, 0, b'{"consumeResult":"CR_SUCCESS"}'))
    assert bytes(asker.answers[opaque].body) == b'{"consumeResult":"CR_SUCCESS"}'


@pytest.mark.parametrize("msg_id", ["", "junk", "0" * 32, "F" * 32, "7F000001000069050000000000000010"])
def test_a_message_that_is_not_there_is_not_consumed(broker: Harness, msg_id: str) -> None:
    asker, consumer = broker.connect(), broker.connect()
    beat(consumer, "G", client_id="one")
    answer = asker.ask(ConsumeMessageDirectly(consumer_group="G", client_id="one", msg_id=msg_id, topic="T"))
    assert answer.code == SYSTEM_ERROR
    assert [command.code for command in consumer.asked] == [NotifyConsumerIdsChanged.code]


def test_a_stored_unit_inside_a_body_is_no_message(broker: Harness) -> None:
    """Attack 16: the body is a unit with the right physical offset, which can be guessed from the last message id."""
    asker, consumer = broker.connect(), broker.connect()
    first = send(asker, "T")
    unit = bytearray(broker.node.store.lookup(0) or b"")
    end = broker.node.store.written_offset
    forged = asker.ask(send_request("T"), bytes(unit))
    assert forged.code == SUCCESS
    outer = bytes(broker.node.store.lookup(end) or b"")
    inner = end + outer.index(bytes(unit))
    unit[28:36] = (inner + len(outer)).to_bytes(8, "big")  # where it will lie when sent once more
    second = broker.node.store.written_offset
    assert asker.ask(send_request("T"), bytes(unit)).code == SUCCESS
    inner = second + bytes(broker.node.store.lookup(second) or b"").index(bytes(unit))
    assert bytes(broker.node.store.lookup(inner) or b"") == bytes(unit), "the forgery is perfect"
    beat(consumer, "G", client_id="one")
    msg_id = first[:16] + f"{inner:016X}"
    answer = asker.ask(ConsumeMessageDirectly(consumer_group="G", client_id="one", msg_id=msg_id, topic="T"))
    assert answer.code == SYSTEM_ERROR


# -- configuration (attacks 36 to 39)


def change(client: Client, text: str) -> Command:
    return client.ask(UpdateBrokerConfig(), text.encode())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("maxMessageSize=7\nbrokerConfigPath=/tmp/x\n", NO_PERMISSION),
        ("maxMessageSize=7\nrocketmqHome=/tmp/x\n", NO_PERMISSION),
        ("maxMessageSize=7\nstorePathRootDir=/tmp/x\n", NO_PERMISSION),
        ("maxMessageSize=7\nmessageStorePlugIn=x.y.Z\n", NO_PERMISSION),
        ("maxMessageSize=7\nauthenticationProvider=x.y.Z\n", NO_PERMISSION),
        ("maxMessageSize=7\nmetricsGrpcExporterTarget=http://x\n", NO_PERMISSION),
        ("maxMessageSize=7\nmappedFileSizeCommitLog=1\n", NO_PERMISSION),
        ("maxMessageSize=7\nregionId=a\\nbrokerRole=SLAVE\n", INVALID),
        ("maxMessageSize=7\nregionId=a\\u000abrokerRole=SLAVE\n", INVALID),
        ("maxMessageSize=7\ntraceOn=perhaps\n", INVALID),
        ("maxMessageSize=7\nregionId=\\u00zz\n", SYSTEM_ERROR),
    ],
)
def test_a_change_with_one_bad_part_changes_nothing(broker: Harness, text: str, code: int) -> None:
    client = broker.connect()
    assert change(client, text).code == code
    assert broker.node.config.text("maxMessageSize") == "4194304"
    assert broker.node.config.data_version.counter == 0


def test_a_change_reaches_the_file_that_was_given_at_the_start_and_no_other(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-a\n")
    broker = Harness(tmp_path / "store", path=conf, myPassword="p", regionId="C:\\tmp")
    client = broker.connect()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert change(client, "maxMessageSize=7\nnosuchkey=1\n").code == SUCCESS
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert after - before <= {tmp_path / "broker.conf.bak"}
    text = conf.read_text()
    assert "maxMessageSize=7\n" in text
    assert "myPassword=p\n" in text
    assert "regionId=C:\\\\tmp\n" in text
    assert "nosuchkey" not in text
    listing = bytes(client.ask(GetBrokerConfig()).body).decode()
    assert "maxMessageSize=7\n" in listing
    assert "myPassword=******\n" in listing
    assert json.loads(client.ask(GetBrokerConfig()).ext_map()["version"])["counter"] == 1
    broker.stop()


def test_a_changed_limit_is_obeyed_at_once(broker: Harness) -> None:
    client = broker.connect()
    assert change(client, "autoCreateTopicEnable=false\n").code == SUCCESS
    assert client.ask(send_request("New"), b"body").code == TOPIC_NOT_EXIST


# -- the rest


def test_foreign_text_makes_one_log_line(broker: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """Attack 50."""
    caplog.set_level("INFO")
    client = broker.connect()
    beat(client, "G", topics=("T\nFAKE LINE", "\x1b[31mred", "\u202egnihtemos"), client_id="a\nERROR forged\x1b[2J")
    client.ask(DeleteSubscriptionGroup(group_name="x\nFAKE LINE"))
    client.ask(create("y\nFAKE LINE"))
    assert len(caplog.records) > 2
    for record in caplog.records:
        text = record.getMessage()
        assert "\n" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_too_many_queues_to_lock(broker: Harness) -> None:
    client = broker.connect()
    queues = [{"topic": "T", "brokerName": "b", "queueId": number} for number in range(16_385)]
    body = json.dumps({"consumerGroup": "G", "clientId": "c", "mqSet": queues}).encode()
    assert client.ask(LockBatchMq(), body).code == SYSTEM_ERROR


def test_a_listing_of_thousands_is_answered_in_slices(broker: Harness) -> None:
    client, other = broker.connect(), broker.connect()
    for number in range(3000):
        broker.node.topics._rows.put(f"T{number:04}", broker.node.topics.table["TBW102"])
    opaque = client._opaque + 1
    broker.driver.turn((client, client.frame(GetAllTopicConfig())))
    assert opaque not in client.answers
    assert other.ask(GetTopicConfig(topic="TBW102")).code == SUCCESS
    broker.driver.run()
    assert bytes(client.answers[opaque].body).count(b'"topicName"') == 3015
    paged = client.ask(GetAllTopicConfig(topic_seq=0, max_topic_num=99999, data_version=""))
    assert bytes(paged.body).count(b'"topicName"') == 2000
    assert paged.ext_map() == {"totalTopicNum": "3015"}
