"""Fields that Java's base classes give to most requests.

A server may ignore all of them unless it serves static topics: they steer one broker's calls to another.  They are declared
because a client may send them, and because a broker that relays a request passes them on.
"""

from __future__ import annotations

from rmq_wire.declare import Request


class RpcRequest(Request):
    """What any request may carry beside its own fields.  Source: `org.apache.rocketmq.remoting.rpc.RpcRequestHeader`.

    `ns`: the name space; `nsd`: whether the names in the request already contain it; `bname`: the broker that is meant, by
    name, where the address does not say it (static topics); `oway`: nobody waits for an answer.
    """

    ns: str | None = None
    nsd: bool | None = None
    bname: str | None = None
    oway: bool | None = None


class TopicRequest(RpcRequest):
    """A request about a topic.  `lo`: its queue ids are logical ones of a static topic.  Source: `TopicRequestHeader`."""

    lo: bool | None = None


class TopicQueueRequest(TopicRequest):
    """A request about one queue of a topic.  Source: `TopicQueueRequestHeader`."""
