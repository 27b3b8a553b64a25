"""In which order to say what a client said at once, so that another server comes to the same answers.

Questions that were asked of a server together, on one connection or on several, met in its threads by chance.  Their answers show
in which order they were served: each is asked when those answered before it have their answers.  A question that a server holds
back (a pull) is asked at its place: its answer says when there was something to report, not when it was asked.  But where a
heartbeat was on its way, it is asked after the heartbeat's answer: a broker serves the two in different threads, and answers a
pull with 25 (SUBSCRIPTION_NOT_LATEST) when it does not know the newer subscription yet.  What woke a pull is not asked later than
the pull's answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from conformance.captures.decoding import ASKS, Said

HELD: Final = frozenset(
    {
        "PULL_MESSAGE",
        "LITE_PULL_MESSAGE",
        "POP_MESSAGE",
        "POP_LITE_MESSAGE",
        "NOTIFICATION",
        "GET_CONSUMER_RUNNING_INFO",
        "CONSUME_MESSAGE_DIRECTLY",
        "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
    }
)
"""Requests that a server answers when something else happens."""
SUBSCRIBES: Final = "HEART_BEAT"
"""What a held request needs to have been served."""


class Turns(NamedTuple):
    """How the order of the events is changed."""

    after: dict[int, list[int]]
    """Event of an answer -> events of questions that are asked only then, in their order."""
    late: frozenset[int]
    """Events of those questions."""


def no_turns() -> Turns:
    """Everything at its place."""
    return Turns({}, frozenset())


def in_turn(said: Sequence[Said | None], server_of: Sequence[str]) -> Turns:
    """Each question of the client after the answers of the same server that came before its own.

    server_of: for each event, the server of its connection.
    """
    questions: dict[int, int] = {}
    """Answer -> question, of those that are not held back."""
    held: dict[int, int] = {}
    """The same, of those that are."""
    unasked: list[int] = []
    """Events at which the server says something that waited for something else to happen."""
    for at, one in enumerate(said):
        if one is None:
            continue
        asked = None if one.question is None else said[one.question]
        if asked is not None and not one.to_client and asked.name not in HELD:
            questions[at] = one.question if one.question is not None else at
        elif asked is not None and one.question is not None and not one.to_client:
            held[at] = one.question
            unasked.append(at)
        elif (one.to_client and one.question is None) or (asked is not None and asked.name in HELD):
            unasked.append(at)
    answers = sorted(questions)
    after: dict[int, list[int]] = defaultdict(list)
    for place, answer in enumerate(answers):
        question = questions[answer]
        one = said[question]
        assert one is not None
        assert one.what == ASKS
        next_unasked = bisect_right(unasked, question)
        limit = min(answer, unasked[next_unasked]) if next_unasked < len(unasked) else answer
        before = [at for at in answers[:place] if question < at < limit and server_of[at] == server_of[question]]
        if before:
            after[before[-1]].append(question)
    heartbeats = [at for at in answers if (asked := said[questions[at]]) is not None and asked.name == SUBSCRIBES]
    for answer, question in held.items():
        limit = unasked[bisect_right(unasked, question)]
        before = [
            at for at in heartbeats if questions[at] < question < at < limit <= answer and server_of[at] == server_of[question]
        ]
        if before:
            after[before[-1]].append(question)
    return Turns(dict(after), frozenset(question for late in after.values() for question in late))
