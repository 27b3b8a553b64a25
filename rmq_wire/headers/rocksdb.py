"""Requests that only mean something to a broker that keeps its queues or its configuration in RocksDB."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I64, Request, Role


class CheckRocksdbCqWriteProgress(Request, code=RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, to=Role.BROKER):
    """Do file and RocksDB queues hold the same, from `check_store_time` (milliseconds since 1970) on?

    The answer's body is a `CheckRocksdbCqWriteResult`.  Source: `CheckRocksdbCqWriteProgressRequestHeader`.
    """

    topic: str
    check_store_time: I64 = 0


class ExportRocksDBConfigToJson(Request, code=RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, to=Role.BROKER):
    """Write configuration out of RocksDB into its JSON files.  `config_type`: names joined by `;`.

    Source: `ExportRocksDBConfigToJsonRequestHeader`.
    """

    config_type: str
