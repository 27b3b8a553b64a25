"""Reading a queue from an offset on, with or without waiting for something to read."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Role
from rmq_wire.headers.base import TopicQueueRequest


class PullMessageResponse(Header, fast=True):
    """What the queue holds and where to go on.  Source: `PullMessageResponseHeader`.

    Offsets are queue offsets.  `suggest_which_broker_id`: 0 for the master, 1 for the slave that should be asked next time.
    `offset_delta` belongs to static topics, `forbidden_type` says why reading is not allowed.
    """

    suggest_which_broker_id: I64
    next_begin_offset: I64
    min_offset: I64
    max_offset: I64
    offset_delta: I64 | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None
    forbidden_type: I32 | None = None


class PullMessage(TopicQueueRequest, code=RequestCode.PULL_MESSAGE, to=Role.BROKER, reply=PullMessageResponse, fast=True):
    """Read up to `max_msg_nums` messages from `queue_offset` on.  The answer's body is the stored messages, one after the other.

    `sys_flag` (`PullSysFlag`): bit 0 commit `commit_offset` first, bit 1 wait up to `suspend_timeout_millis` for a first
    message, bit 2 `subscription` is given, bit 3 it is for a class filter, bit 4 lite pull.  `sub_version` is the time at which
    the client made its subscription.  `max_msg_bytes` limits the body; `request_source` and `proxy_froward_client_id` (Java
    spells it so) are a proxy's.  Source: `PullMessageRequestHeader`.
    """

    consumer_group: str
    topic: str
    queue_id: I32
    queue_offset: I64
    max_msg_nums: I32
    sys_flag: I32
    commit_offset: I64
    suspend_timeout_millis: I64
    sub_version: I64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: I32 | None = None
    request_source: I32 | None = None
    proxy_froward_client_id: str | None = None
    lite_topic: str | None = None


class LitePullMessage(PullMessage, code=RequestCode.LITE_PULL_MESSAGE, to=Role.BROKER, reply=PullMessageResponse):
    """As `PullMessage`, for lite pull consumers: a code of its own, so that a broker can keep them apart and switch them off."""
