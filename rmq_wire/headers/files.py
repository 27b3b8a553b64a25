"""Asking a broker to clean its store up now instead of at its own time."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Request, Role


class CleanExpiredConsumeQueue(Request, code=RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, to=Role.BROKER):
    """Remove consume queue files that only point at messages which are gone."""


class DeleteExpiredCommitLog(Request, code=RequestCode.DELETE_EXPIRED_COMMITLOG, to=Role.BROKER):
    """Remove commit log files that have outlived their time."""
