"""The grid's rows about the broker's files: 306, 329, 354, 355."""

from __future__ import annotations

from conformance.suite.grid.expect import NEVER_MIND, NO_LIMIT, NO_PERMISSION, REFUSED, UNREAD, Expect, has
from conformance.suite.grid.goods import nobody, of_topic, plain
from conformance.suite.grid.grid import Cell, grid
from conformance.suite.kit import Need
from rmq_wire.headers.files import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from rmq_wire.headers.rocksdb import CheckRocksdbCqWriteProgress, ExportRocksDBConfigToJson

NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}

grid(
    CleanExpiredConsumeQueue,
    plain(CleanExpiredConsumeQueue),
    "AdminBrokerProcessor.cleanExpiredConsumeQueue",
    none=NEVER_MIND,
    alone=True,
    needs=(Need.OWN,),
)
grid(
    DeleteExpiredCommitLog,
    plain(DeleteExpiredCommitLog),
    "AdminBrokerProcessor.deleteExpiredCommitLog",
    none=NEVER_MIND,
    since=(4, 9, 3),
    alone=True,
    needs=(Need.OWN,),
)
grid(
    CheckRocksdbCqWriteProgress,
    of_topic(lambda topic: CheckRocksdbCqWriteProgress(topic=topic)),
    "AdminBrokerProcessor.checkRocksdbCqWriteProgress",
    ok=Expect(body=has("checkStatus")),
    cells={"unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("checkStatus")))},
    missing={"topic": UNREAD},
    none=NONE,
    since=(5, 3),
)
grid(
    ExportRocksDBConfigToJson,
    plain(lambda: ExportRocksDBConfigToJson(config_type="topics")),
    "AdminBrokerProcessor.exportRocksDBConfigToJson",
    cells={"unknown-type": Cell(change={"configType": "nothing"}, expect=REFUSED)},
    none=NONE,
    since=(5, 3, 2),
)
