"""The table of topics, page by page (21 with topicSeq and maxTopicNum, since 5.5), and the version that it has."""

from __future__ import annotations

import json
from typing import Final

import trio

from conformance.suite.trial import POLL_S, Trial
from rmq_wire.headers import topics

PAGE: Final = 50
CHANGES_MAX: Final = 100
"""Of the table, while one tries to read it."""
CHANGE_S_MAX: Final = 3.0


async def version_now(t: Trial) -> str:
    """The version of the broker's table of topics now."""
    answer = t.answer("version", await t.broker.ask(topics.GetAllTopicConfig(topic_seq=0, max_topic_num=1)))
    return json.dumps(answer.json()["dataVersion"])


async def next_version(t: Trial, version: str) -> str:
    """The next one; the same when none comes."""
    with trio.move_on_after(CHANGE_S_MAX * t.patience):
        while (now := await version_now(t)) == version:
            await trio.sleep(POLL_S)
        return now
    return version


async def all_pages(t: Trial, version: str) -> tuple[list[str], str]:
    """What all pages list, and the version; another version than that which is given as soon as a page has it."""
    seen: list[str] = []
    while True:
        asked = topics.GetAllTopicConfig(topic_seq=len(seen), max_topic_num=PAGE, data_version=version)
        answer = t.answer(f"from {len(seen)}", await t.broker.ask(asked), ext={"totalTopicNum": int})
        table = answer.json()
        now = json.dumps(table["dataVersion"])
        seen += table["topicConfigTable"]
        if now != version or not table["topicConfigTable"] or len(seen) >= int(answer.ext["totalTopicNum"]):
            return seen, now
