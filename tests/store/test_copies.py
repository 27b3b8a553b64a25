"""What is read of the log to be stored once more: the same as anybody reads there, whatever kind of unit it is."""

from __future__ import annotations

import pytest

from rmq_store.errors import Cold
from rmq_store.log.draft import Draft
from rmq_wire import names
from rmq_wire.implied import timers
from rmq_wire.implied.tags import tags_code
from rmq_wire.properties import decode, encode_java
from rmq_wire.property_shapes import SIGHTINGS
from tests.support.store_rig import HOST, HOST_V6, START_MS, Rig, draft
from tests.support.timer_rig import TimerRig

PROPERTIES = "UNIQ_KEY\x01u\x02é\x01%s\x02".encode()
LONG = "L" * 128


def test_copies_say_what_the_log_says() -> None:
    rig = Rig()
    kinds = [
        draft(0),
        draft(1, topic="TopicB"),
        draft(2, topic=LONG),
        Draft("TopicA", 3, b"", b"", START_MS - 7, HOST_V6, HOST, 5, 0, 2),
        Draft("TopicA", 0, b"body", PROPERTIES, START_MS - 7, HOST, HOST_V6),
        Draft("TopicA", 0, b"body", PROPERTIES, START_MS - 7, HOST, HOST, -1, 0b1000_0000, 16, 77),
    ]
    rig.put(*kinds)
    places = [(one.physical_offset, one.size) for one in rig.put(*kinds)]
    for topic in ("TopicA", "TopicB", LONG):
        for found, (at, size) in zip(rig.store.copies(topic, places), places, strict=True):
            stored = rig.store.stored(at, size)
            assert found is not None
            assert stored is not None
            assert found.topic.encode() == stored.topic
            assert (bytes(found.body), found.properties) == (bytes(stored.body), stored.properties)
            assert (found.born_timestamp, found.born_host, found.store_host) == (
                stored.born_timestamp,
                stored.born_host,
                stored.store_host,
            )
            assert (found.flag, found.sys_flag, found.reconsume_times) == (stored.flag, stored.sys_flag, stored.reconsume_times)
            assert found.prepared_transaction_offset == 0


def test_what_is_no_unit_of_this_size_is_none() -> None:
    rig = Rig()
    [first, second] = rig.put(draft(0), draft(1))
    at, size = first.physical_offset, first.size
    wrong = [(at, size + 1), (at, size - 1), (at + 1, size), (second.physical_offset, 10**9), (-size, size), (at, 0), (at, -1)]
    wrong += [(at, size + second.size), (second.end_offset, size), (1 << 40, size), (at, 40)]
    assert list(rig.store.copies("TopicA", [*wrong, (at, size)]))[:-1] == [None] * len(wrong)


def test_every_damaged_length_is_none() -> None:
    rig = Rig()
    rig.put(draft(0))
    [placed] = rig.put(draft(1))
    at, size = placed.physical_offset, placed.size
    file = rig.store._log.segments.file(0)
    whole = file.read_at(at, size)
    for byte in range(size):
        file.write_at(at + byte, bytes([whole[byte] ^ 0x41]))
        [found], stored = list(rig.store.copies("TopicA", [(at, size)])), rig.store.stored(at, size)
        assert (found is None) == (stored is None), byte
        if found is not None and stored is not None:
            assert (bytes(found.body), found.properties) == (bytes(stored.body), stored.properties)
        file.write_at(at + byte, whole[byte : byte + 1])


def test_it_ends_at_the_first_that_is_not_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    placed = rig.put(draft(0), draft(1), draft(2))
    places = [(one.physical_offset, one.size) for one in placed]
    rig.store.stored(*places[0])
    reader = rig.store._reader
    monkeypatch.setattr(type(reader), "hot_from", property(lambda _: 1 << 40))

    def make_sure(at: int, end: int) -> None:
        if at == places[1][0]:
            raise Cold(lambda: None, "somewhere")

    monkeypatch.setattr(reader, "make_sure", make_sure)
    found = rig.store.copies("TopicA", places)
    assert next(found) is not None
    with pytest.raises(Cold):
        next(found)


def test_timers_whose_shape_is_known_say_what_the_first_one_says() -> None:
    rig = TimerRig()
    sent = [rig.send(START_MS + 5_500 + 1_000 * (n % 2), TAGS=f"t{n}", mine=f"{n}%s") for n in range(4 * SIGHTINGS)]
    rig.turn()
    rig.wait(1_300)
    sent += [rig.send(START_MS + 5_500 + 1_000 * (n % 2), TAGS=f"l{n}", mine="late") for n in range(SIGHTINGS)]
    rig.turn()
    rig.recall(sent[-1], START_MS + 6_500)
    nowhere = {"UNIQ_KEY": "N", "TIMER_DELIVER_MS": "1", "TAGS": "t", "mine": "n", "REAL_TOPIC": "T", "REAL_QID": "x"}
    rig.put(names.WHEEL_TIMER_TOPIC, {**nowhere, "TIMER_OUT_MS": str(START_MS + 6_000)}, b"N")
    waited = {bytes(one.body).decode(): one for one in rig.messages(names.WHEEL_TIMER_TOPIC)}
    rig.wait(10_000)
    assert sorted(rig.keys()) == sorted(sent[:-1])
    assert len(rig.said) == 1
    assert "does not say where it belongs" in rig.said[0]
    codes = [code for _, _, code in rig.rig.store.queue_units("T", 0, 0, 8)]
    for number, message in enumerate(rig.messages()):
        key = bytes(message.body).decode()
        values = decode(waited[key].properties.decode())
        if number < len(codes):
            assert codes[number] == tags_code(values["TAGS"])
        entered_ms = START_MS if int(key[1:]) <= 4 * SIGHTINGS else START_MS + 1_000
        timers.note_dequeue(values, entered_ms, message.store_timestamp, rolls=False)
        assert message.properties == encode_java(values)
        assert rig.rig.store.query("T", key, 2, 0, START_MS * 2).units == [rig.rig.store.lookup(message.physical_offset)]
