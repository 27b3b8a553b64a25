"""What a broker still owes: for each of its four kinds of promises, the rows of the log that make it and those that keep it.

    delayed   SCHEDULE_TOPIC_XXXX, queue = level - 1, due when its queue unit says (`ScheduleMessageService`); kept by a copy in
              the real topic; `delayOffset.json` says how far each level came
    timed     rmq_sys_wheel_timer, due at TIMER_OUT_MS (`TimerMessageStore`); kept by a copy in the real topic, or recalled
    half      RMQ_SYS_TRANS_HALF_TOPIC; ended by an op message, whose body lists queue offsets; a check puts it back with
              TRANSACTION_CHECK_TIMES (`TransactionalMessageServiceImpl`)
    pop       check points in rmq_sys_REVIVE_LOG_… (or still in the wheel on their way there), one message for each offset that
              no ack names (`PopReviveService`); the revive group's position is that of the last one dealt with

A copy is known by topic, unique key and number of retries; a message without a unique key by birth and body CRC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Source
from rmq_spark.measuring import time_at
from rmq_spark.picking import Picking, options_of, picked
from rmq_spark.progress import on_its_way, usual_delay_ms
from rmq_wire.bodies.pop import MESSAGES_MAX
from rmq_wire.names import REVIVE_LOG_PREFIX as REVIVE
from rmq_wire.names import SCHEDULE_TOPIC as SCHEDULE
from rmq_wire.names import TRANS_GROUP as TRANSACTIONS
from rmq_wire.names import TRANS_HALF_TOPIC as HALF
from rmq_wire.names import TRANS_OP_HALF_TOPIC as OP
from rmq_wire.names import WHEEL_TIMER_TOPIC as WHEEL

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

REVIVER: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""`PopAckConstants.REVIVE_GROUP`."""
TRANSACTION_TIMEOUT_MS: Final = 6000
"""`transactionTimeOut`: a half message is first asked about when it is so old."""
TRANSACTION_BITS, COMMITTED = 0xC, 0x8
"""`MessageSysFlag`."""
WANTED: Final = Picking(
    (
        "brokerName",
        "topic",
        "queueId",
        "queueOffset",
        "physicalOffset",
        "uniqKey",
        "bornTimestamp",
        "storeTimestamp",
        "reconsumeTimes",
        "sysFlag",
        "preparedTransactionOffset",
        "bodyCrc",
        "tags",
        "body",
    ),
    (
        ("level", "DELAY"),
        ("outMs", "TIMER_OUT_MS"),
        ("realTopic", "REAL_TOPIC"),
        ("realQueueId", "REAL_QID"),
        ("recalls", "TIMER_DEL_UNIQKEY"),
        ("group", "PGROUP"),
        ("checks", "TRANSACTION_CHECK_TIMES"),
        ("preparedAt", "TRAN_PREPARED_QUEUE_OFFSET"),
    ),
)
BODY: Final = (
    "so bigint, pt bigint, it bigint, bm int, n int, q int, t string, c string, d array<int>, ao bigint, aol array<bigint>,"
    " rp string, sp boolean,"
    " startOffset bigint, popTime bigint, queueId int, topic string, consumerGroup string, ackOffset bigint,"
    " ackOffsetList array<bigint>"
)
"""`PopCheckPoint`, `AckMsg`, `BatchAckMsg`; acks are read under their long names, too."""
IDENTITY: Final = "xxhash64(said.n, if(size(said.d) > 0, said.d, null), said.rp, coalesce(said.sp, false))"
"""With `due`: what tells check points of one name from one that is there twice (`rmq_wire.implied.pop.is_same_point`)."""
FOUND: Final = (
    "kind",
    "brokerName",
    "topic",
    "queueId",
    "queueOffset",
    "group",
    "level",
    "uniqKey",
    "systemTopic",
    "systemQueueId",
    "systemQueueOffset",
    "physicalOffset",
    "bornTimestamp",
    "storeTimestamp",
    "dueTimestamp",
    "state",
)


def matters(batch: pa.RecordBatch, among: Sequence[str] = ()) -> Any:
    """Promises, and what keeps them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topic = batch.column("topic")
    own = pc.or_(pc.is_in(topic, value_set=pa.array([SCHEDULE, WHEEL, HALF, OP])), pc.starts_with(topic, REVIVE))
    copies = pc.and_(
        pc.equal(topic, batch.column("realTopic")),
        pc.or_(pc.is_valid(batch.column("level")), pc.is_valid(batch.column("outMs"))),
    )
    committed = pc.equal(pc.bit_wise_and(batch.column("sysFlag"), TRANSACTION_BITS), COMMITTED)
    return pc.or_(pc.or_(own, pc.fill_null(copies, False)), committed)


def speaks(batch: pa.RecordBatch, among: Sequence[str] = ()) -> Any:
    """Rows whose body is looked at."""
    import pyarrow.compute as pc

    topic = batch.column("topic")
    of_pop = pc.or_(pc.starts_with(topic, REVIVE), pc.fill_null(pc.starts_with(batch.column("realTopic"), REVIVE), False))
    return pc.or_(pc.equal(topic, OP), of_pop)


def log_rows(spark: SparkSession, source: Source) -> DataFrame:
    """All that matters of the log; damage has no topic."""
    wanted = replace(WANTED, keep=f"{__name__}:{matters.__name__}", blank=("body", f"{__name__}:{speaks.__name__}"))
    return picked(spark, source, wanted, ("topics", "queueIds"), includeSystemTopics="true", includeBody="true")


def identified(rows: DataFrame) -> DataFrame:
    """With `identity`, by which copies are known."""
    from pyspark.sql import functions as F

    plain = F.concat_ws(":", F.unix_millis("bornTimestamp").cast("string"), F.col("bodyCrc").cast("string"))
    return rows.withColumn("identity", F.coalesce("uniqKey", plain))


def copies(rows: DataFrame) -> DataFrame:
    """Messages that were delayed or timed, in their own topics: when they came there."""
    from pyspark.sql import functions as F

    own = identified(rows.where("topic = realTopic and (level is not null or outMs is not null)"))
    names = ("brokerName", F.col("topic").alias("realTopic"), "identity", "reconsumeTimes")
    return own.select(*names, F.col("storeTimestamp").alias("came"), F.col("physicalOffset").alias("cameAt"))


def _with_copies(promises: DataFrame, rows: DataFrame) -> DataFrame:
    """With `came`, when the copy of each came to its topic, and `cameAt`, where; null without one.

    Of several promises with one identity the first is kept by the first copy behind it, the second by the second, and so on.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    key = ["brokerName", "realTopic", "identity", "reconsumeTimes"]
    own = identified(promises).withColumn("number", F.row_number().over(Window.partitionBy(*key).orderBy("physicalOffset")))
    first = own.groupBy(*key).agg(F.min("physicalOffset").alias("first"))
    behind = copies(rows).join(first, key).where("cameAt > first").drop("first")
    behind = behind.withColumn("number", F.row_number().over(Window.partitionBy(*key).orderBy("cameAt")))
    return own.join(behind, [*key, "number"], "left").drop("number", "identity")


def delayed(spark: SparkSession, source: Source, rows: DataFrame, progress: DataFrame) -> DataFrame:
    """Every delayed message with `came`; state: delivered, waiting, or undelivered (its level has gone on without it).  Where the
    log ends too early to say so (a replica may be behind its files of progress), unknown.  progress: of `progress_of`."""
    from pyspark.sql import functions as F

    options = options_of(source, ("queueIds", "verifyCrc", "decompress"), topics=SCHEDULE, mode="DROPMALFORMED")
    units = Source(source.paths, options).read(spark, "consumequeue")
    units = units.select("brokerName", "queueId", "queueOffset", F.col("physicalOffset").alias("unitAt"), "tagsCode")
    own = _with_copies(rows.where(F.col("topic") == SCHEDULE), rows)
    own = own.join(units, ["brokerName", "queueId", "queueOffset"], "left")
    own = own.join(F.broadcast(progress), "brokerName", "left")
    stored = F.unix_millis("storeTimestamp")
    due_at = F.when((F.col("unitAt") == F.col("physicalOffset")) & (F.col("tagsCode") >= stored), F.col("tagsCode"))
    # where no queue unit says when a message is due, the usual delay does
    due = time_at(F.coalesce(due_at, stored + usual_delay_ms("queueId")))
    own = own.withColumn("dueTimestamp", due)
    # what is not passed waits, whenever it is due: it is overdue then
    without_copy = on_its_way("unix_millis(dueTimestamp)", "true", "queueOffset < coalesce(delayOffsets[queueId], 0)")
    state = F.expr(f"case when came is not null then 'delivered' else {without_copy} end")
    return _rows(own.withColumn("state", state), "delayed")


def timed(rows: DataFrame) -> DataFrame:
    """Every timed message once, however often it was rolled; state: delivered, recalled or waiting."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    wheel = rows.where((F.col("topic") == WHEEL) & ~F.coalesce(F.col("realTopic"), F.lit("")).startswith(REVIVE))
    markers = wheel.where("recalls is not null").select("brokerName", F.col("uniqKey"), F.lit(True).alias("isRecalled"))
    promises = identified(wheel.where("recalls is null"))
    again = Window.partitionBy("brokerName", "realTopic", "identity", "outMs").orderBy(F.desc("physicalOffset"))
    promises = promises.withColumn("number", F.row_number().over(again)).where("number = 1").drop("number", "identity")
    own = _with_copies(promises, rows).join(markers.distinct(), ["brokerName", "uniqKey"], "left")
    state = F.expr("case when came is not null then 'delivered' when isRecalled then 'recalled' else 'waiting' end")
    due = time_at(F.expr("coalesce(try_cast(outMs as bigint), unix_millis(storeTimestamp))"))
    return _rows(own.withColumn("dueTimestamp", due).withColumn("state", state), "timed")


def real_queue() -> Column:
    """What `rmq_wire.implied.real_place.real_queue` makes of realQueueId; Spark's own cast takes spaces and other signs, too."""
    from pyspark.sql import functions as F

    text = F.col("realQueueId")
    return F.when(text.rlike(r"\A([+]?[0-9]+|-0+)\z"), text.try_cast("int"))


def _rows(own: DataFrame, kind: str) -> DataFrame:
    from pyspark.sql import functions as F

    return own.select(
        F.lit(kind).alias("kind"),
        "brokerName",
        F.col("realTopic").alias("topic"),
        real_queue().alias("queueId"),
        F.lit(None).cast("bigint").alias("queueOffset"),
        "group",
        F.expr("try_cast(level as int)").alias("level"),
        "uniqKey",
        F.col("topic").alias("systemTopic"),
        F.col("queueId").alias("systemQueueId"),
        F.col("queueOffset").alias("systemQueueOffset"),
        "physicalOffset",
        "bornTimestamp",
        "storeTimestamp",
        "dueTimestamp",
        "state",
        *([F.col("came").alias("deliveredTimestamp"), "cameAt"] if "came" in own.columns else []),
    )


def half(rows: DataFrame, positions: DataFrame) -> DataFrame:
    """Every half message; state: ended, again (the broker's check put it back as a later one, which says so; where its producer
    sent it twice neither does, and both wait), committed (but no op says so: the broker will ask again and a second commit may
    follow), discarded (its queue has gone on without it), waiting."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    own = rows.where(F.col("topic") == HALF)
    offsets = F.explode(F.split(F.col("body").cast("string"), ","))
    ops = rows.where(F.col("topic") == OP).select("brokerName", "queueId", offsets.alias("text"))
    ops = ops.select("brokerName", "queueId", F.expr("try_cast(trim(text) as bigint)").alias("queueOffset")).distinct()
    ops = ops.where("queueOffset is not null").withColumn("isEnded", F.lit(True))
    commits = rows.where(f"sysFlag & {TRANSACTION_BITS} = {COMMITTED} and topic <> '{SCHEDULE}' and reconsumeTimes = 0")
    commits = commits.select("brokerName", F.col("preparedTransactionOffset").alias("physicalOffset")).distinct()
    passed = positions.where((F.col("group") == TRANSACTIONS) & (F.col("topic") == HALF))
    own = own.join(ops, ["brokerName", "queueId", "queueOffset"], "left")
    own = own.join(commits.withColumn("isCommitted", F.lit(True)), ["brokerName", "physicalOffset"], "left")
    own = own.join(F.broadcast(passed.select("brokerName", "queueId", "offset")), ["brokerName", "queueId"], "left")
    later = Window.partitionBy("brokerName", "uniqKey").orderBy("physicalOffset").rowsBetween(1, Window.unboundedFollowing)
    is_put_back = F.max(F.expr("checks is not null or preparedAt is not null")).over(later)
    own = own.withColumn("again", F.expr("uniqKey is not null") & F.coalesce(is_put_back, F.lit(False)))
    state = F.expr(
        "case when isEnded then 'ended' when again then 'again' when isCommitted then 'committed'"
        " when queueOffset < offset then 'discarded' else 'waiting' end"
    )
    due = time_at(F.unix_millis("bornTimestamp") + TRANSACTION_TIMEOUT_MS)
    return _rows(own.withColumn("dueTimestamp", due).withColumn("state", state), "half")


def pop(rows: DataFrame, positions: DataFrame) -> DataFrame:
    """Every message of every check point, also of two of one name; state: acked, settled (revive has gone on: it is in a retry
    topic now), waiting.
    """
    from pyspark.sql import functions as F

    found = pop_states(rows, positions).withColumn("dueTimestamp", time_at(F.col("due"))).withColumn("kind", F.lit("pop"))
    return found.withColumn("level", F.lit(None).cast("int")).withColumn("uniqKey", F.lit(None).cast("string")).select(*FOUND)


def pop_states(rows: DataFrame, positions: DataFrame) -> DataFrame:
    """The same with the pop of each, `start` and `popTime`: what `rmq_wire.implied.pop` says of each record, as a query."""
    from pyspark.sql import functions as F

    is_here = F.col("topic").startswith(REVIVE)
    own = rows.where(is_here | ((F.col("topic") == WHEEL) & F.coalesce(F.col("realTopic"), F.lit("")).startswith(REVIVE)))
    own = own.withColumn("said", F.from_json(F.col("body").cast("string"), BODY)).select(
        "brokerName",
        "tags",
        "said",
        "physicalOffset",
        "bornTimestamp",
        "storeTimestamp",
        F.expr("coalesce(said.so, said.startOffset)").alias("start"),
        F.when(is_here, F.col("topic")).otherwise(F.col("realTopic")).alias("systemTopic"),
        F.coalesce(real_queue(), "queueId").alias("systemQueueId"),
        F.when(is_here, F.col("queueOffset")).alias("systemQueueOffset"),
        F.expr("coalesce(said.t, said.topic)").alias("topic"),
        F.expr("coalesce(said.q, said.queueId)").alias("queueId"),
        F.expr("coalesce(said.c, said.consumerGroup)").alias("group"),
        F.expr("coalesce(said.pt, said.popTime)").alias("popTime"),
    )
    key = ["brokerName", "topic", "queueId", "group", "start", "popTime"]
    places = (
        "if(size(said.d) > 0, transform(slice(said.d, 1, said.n), one -> start + one),"
        " transform(sequence(0, said.n - 1), one -> start + one))"
    )
    is_point = f"tags = 'ck' and start is not null and said.n between 1 and {MESSAGES_MAX}"  # ours reads no others
    is_point += " and (coalesce(size(said.d), 0) <= 0 or size(said.d) >= said.n)"
    points = own.where(is_point).select(
        *key,
        "systemTopic",
        "systemQueueId",
        "systemQueueOffset",
        "physicalOffset",
        "bornTimestamp",
        "storeTimestamp",
        (F.col("popTime") + F.expr("said.it")).alias("due"),
        F.expr(IDENTITY).alias("point"),
        F.expr("coalesce(said.bm, 0)").alias("bits"),
        F.posexplode(F.expr(places)).alias("number", "queueOffset"),
    )
    names = ("systemTopic", "systemQueueId", "systemQueueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")
    points = points.groupBy(*key, "point", "due", "queueOffset").agg(  # in the wheel first, then in the revive topic
        *(F.max(name).alias(name) for name in names),
        F.max(F.expr("shiftright(bits, number) & 1")).alias("bit"),
    )
    single = own.where("tags = 'ack'").select(*key, F.expr("coalesce(said.ao, said.ackOffset)").alias("queueOffset"))
    several = own.where("tags = 'bAck'").select(
        *key, F.expr("explode(coalesce(said.aol, said.ackOffsetList))").alias("queueOffset")
    )
    acks = single.unionByName(several).distinct().withColumn("isAcked", F.lit(True))
    passed = positions.where(F.col("group") == REVIVER).select(
        "brokerName", F.col("topic").alias("systemTopic"), F.col("queueId").alias("systemQueueId"), "offset"
    )
    found = points.join(acks, [*key, "queueOffset"], "left")
    found = found.join(F.broadcast(passed), ["brokerName", "systemTopic", "systemQueueId"], "left")
    state = F.expr("case when isAcked or bit = 1 then 'acked' when systemQueueOffset <= offset then 'settled' else 'waiting' end")
    return found.withColumn("state", state)
