"""Statements of the ledger about Java's client: what stock consumers say to the real 5.5.0 servers in the golden captures."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from conformance.captures.decoding import ASKS, ONEWAY, decode_all
from conformance.captures.file import read
from rmq_wire.codes import RequestCode, ResponseCode
from tests.support.golden import CAPTURES

REFERENCE = "push-consumer-5.5.0"
PLAIN = (REFERENCE, "push-consumer-4.9.8")
ORDERLY = "orderly-consumer-5.5.0"
CONSUMERS = (*PLAIN, ORDERLY)
LIST, QUERY, PULL = RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE
UPDATE, BACK = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.CONSUMER_SEND_MSG_BACK
LOOKS = (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
FIRST_PULL_MS = 500


class Asked(NamedTuple):
    """A request of the client, one-way or not, and what came back."""

    at_ms: float
    what: str
    code: int
    fields: dict[str, Any]
    body: Any
    answer: int | None
    answered_ms: float

    @property
    def queue(self) -> tuple[str, int]:
        return self.fields["topic"], self.fields["queueId"]


@cache
def said(stem: str) -> tuple[Asked, ...]:
    events = read(CAPTURES / f"{stem}.jsonl").events
    decoded = decode_all(events)
    answers = {one.question: (one.code, events[at].at_ms) for at, one in enumerate(decoded) if one is not None}
    return tuple(
        Asked(events[at].at_ms, one.what, one.code, one.fields(), one.body and one.body.value, *answers.get(at, (None, 0.0)))
        for at, one in enumerate(decoded)
        if one is not None and one.what in (ASKS, ONEWAY) and not one.to_client
    )


def of(stem: str, code: int) -> list[Asked]:
    found = [one for one in said(stem) if one.code == code]
    assert found, "the capture has some"
    return found


@pytest.mark.parametrize("stem", CONSUMERS)
def test_a_queue_without_progress_is_begun_at_0_and_nobody_is_asked_where_that_is(stem: str) -> None:
    """000-26: CONSUME_FROM_FIRST_OFFSET; from anywhere else it would look where the queue ends, or for a time."""
    beats = [one.body["consumerDataSet"] for one in of(stem, RequestCode.HEART_BEAT)]
    assert {consumer["consumeFromWhere"] for beat in beats for consumer in beat} == {"CONSUME_FROM_FIRST_OFFSET"}
    unknown = {one.queue for one in of(stem, QUERY) if one.answer == ResponseCode.QUERY_NOT_FOUND}
    firsts = {one.queue: one.fields["queueOffset"] for one in reversed(of(stem, PULL))}
    assert unknown <= firsts.keys()
    assert {firsts[queue] for queue in unknown} == {0}
    assert not [one for one in said(stem) if one.code in LOOKS]


@pytest.mark.parametrize("stem", CONSUMERS)
def test_progress_is_told_one_way(stem: str) -> None:
    """001-49."""
    assert {one.what for one in of(stem, UPDATE)} == {ONEWAY}


@pytest.mark.parametrize("stem", PLAIN)
def test_what_is_given_back_says_16_without_a_setting(stem: str) -> None:
    """003-1, 001-86: the consumer of the capture left `maxReconsumeTimes` at -1."""
    assert {one.fields["maxReconsumeTimes"] for one in of(stem, BACK)} == {16}


def test_a_new_queue_is_pulled_half_a_second_after_its_progress_is_known() -> None:
    """001-46.  One in order asks once more just before it pulls."""
    for stem in (REFERENCE, ORDERLY):
        asked = {one.queue: one.answered_ms for one in reversed(of(stem, QUERY))}
        pulled = {one.queue: one.at_ms for one in reversed(of(stem, PULL))}
        waits = [pulled[queue] - asked[queue] for queue in pulled]
        assert len(waits) >= 2
        assert all(FIRST_PULL_MS <= wait < 2 * FIRST_PULL_MS for wait in waits), waits


@pytest.mark.parametrize("stem", CONSUMERS)
def test_members_then_progress_then_a_pull_and_progress_at_the_end(stem: str) -> None:
    """000-43."""
    codes = [one.code for one in said(stem) if one.code in (LIST, QUERY, PULL, UPDATE)]
    assert list(dict.fromkeys(codes)) == [LIST, QUERY, PULL, UPDATE]
