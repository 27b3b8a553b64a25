"""The grid's row about static topics: 513."""

from __future__ import annotations

import json
import re

from conformance.suite.grid.expect import INVALID, NOTHING_TO_DO, UNREAD, by_handler, changed
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import ResponseCode, Trial
from rmq_wire.headers.static_topics import UpdateAndCreateStaticTopic

TOPIC_CHARACTERS_MAX = 127


async def mapped(t: Trial) -> Asked:
    """A static topic whose one queue lies here."""
    topic, here = t.name("static"), t.target.broker_name
    item = {
        "bname": here,
        "endOffset": -1,
        "gen": 0,
        "logicOffset": 0,
        "queueId": 0,
        "startOffset": 0,
        "timeOfEnd": -1,
        "timeOfStart": -1,
    }
    body = {
        "topic": topic,
        "bname": here,
        "epoch": 1_700_000_000_000,
        "scope": "__global__",
        "totalQueues": 1,
        "dirty": False,
        "currIdMap": {"0": 0},
        "hostedQueues": {"0": [item]},
    }
    asked = UpdateAndCreateStaticTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
        topic_sys_flag=0,
        force=False,
    )
    return asked, json.dumps(body).encode()


grid(
    UpdateAndCreateStaticTopic,
    mapped,
    "AdminBrokerProcessor.updateAndCreateStaticTopic",
    each=True,
    body=True,
    cells={
        "unknown-characters": Cell(
            change={"topic": "no blanks"}, expect=changed(INVALID, remark=re.compile("illegal characters"))
        ),
        "permission-system-topic": Cell(change={"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, expect=INVALID),
        "limit-name": Cell(change={"topic": "x" * (TOPIC_CHARACTERS_MAX + 1)}, expect=INVALID),
    },
    missing={"topic": by_handler(ResponseCode.INVALID_PARAMETER), "defaultTopic": UNREAD, "body": NOTHING_TO_DO},
    since=(5,),
)
