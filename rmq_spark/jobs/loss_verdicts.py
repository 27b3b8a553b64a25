"""What becomes of a row of the ledger, once it has met the messages and queue units that may be its own: Spark's SQL.

Columns: evenBroker (of a row in a block that comes out even, its broker); claimed (what the ledger says: queueId, queueOffset,
uniqKey, idPlace, brokerName, delayed); places, best and units (messages and units found); heldBy (brokers that have a message for
it in its topic); queues (bounds of the ledger's queue); systemQueues (those of the system's queues of that number); brokers
(those on which it may be: name, logStart, hasQueues); mayDetour (whether it may be delayed, timed or half first: as the ledger
says, else as others of its topic are).

A message that is not found has expired where its place lies before the beginning of what its broker still has, and is lost where
it lies behind.  Three things hide the place: no broker is named and they differ; there is neither a queue offset nor a physical
one; or the place may be that in the system's topic, of which the later copy is not claimed.  Then it is unknown
which of the two it is, unless retention has taken nothing: all is there from the first byte on, so what is not there is lost.
"""

from __future__ import annotations

from typing import Final

HERE: Final = "filter(places, one -> one.deadIn is null and not one.isWaiting"
"""Unfinished: more conditions may follow, and `)`."""
WITH_EVEN: Final = """if(evenBroker is null or exists(coalesce(places, array()), one -> one.deadIn is null
        and one.brokerName = evenBroker and one.queueId = claimed.queueId and one.queueOffset = claimed.queueOffset),
    places,
    array_append(coalesce(places, array()), named_struct('brokerName', evenBroker, 'own', topic, 'queueId', claimed.queueId,
        'queueOffset', claimed.queueOffset, 'physicalOffset', cast(null as bigint), 'storeSize', cast(null as int),
        'isWaiting', false, 'isMoved', false, 'isCorrupt', false, 'deadIn', cast(null as string), 'uniqKey', claimed.uniqKey)))"""
"""A message of a block that comes out even was not looked at: it is where the ledger says, and its unit leads to it."""
_WAITING: Final = "filter(places, one -> one.deadIn is null and one.isWaiting)"
_LATEST: Final = f"get(array_sort({_WAITING}, (one, other) -> int(sign(other.physicalOffset - one.physicalOffset))), 0)"
"""Of a message that was rolled by the timer, or put back by a check, the last one counts."""
BEST: Final = f"""coalesce(
    get({HERE} and one.queueId = claimed.queueId and one.queueOffset = claimed.queueOffset), 0),
    get({HERE} and one.isMoved), 0),
    get({HERE}), 0),
    {_LATEST})"""
OF_BROKER: Final = "filter(places, one -> claimed.brokerName is null or one.brokerName = claimed.brokerName)"
HELD_BY: Final = f"array_distinct(transform({HERE}), one -> one.brokerName))"
POINTED_AT: Final = """coalesce(
    get(filter(places, one -> one.deadIn is null and one.isWaiting = best.isWaiting and one.queueId = best.queueId
        and one.queueOffset = best.queueOffset
        and exists(units, unit -> unit.physicalOffset = one.physicalOffset and unit.brokerName = one.brokerName)), 0),
    best)"""
"""Of several messages that claim one place, the one that its queue unit points to."""
OWN_UNIT: Final = """if(best.physicalOffset is null, null, array(named_struct('brokerName', best.brokerName,
    'physicalOffset', best.physicalOffset, 'size', best.storeSize)))"""
"""The units of a message that has its own, as the sums of its block say."""
DEAD_IN: Final = "array_distinct(filter(transform(places, one -> one.deadIn), one -> one is not null))"
MAY_BE_ON: Final = "if(claimed.brokerName is null, knowing, filter(everyBroker, one -> one.name = claimed.brokerName))"
FOUND_BROKER: Final = "coalesce(broker, get(units, 0).brokerName, if(size(brokers) = 1, get(brokers, 0).name, null))"

_AT_QUEUE: Final = """get(transform(filter(queues, queue -> queue.brokerName = one.name),
    queue -> if(claimed.queueOffset < queue.first, 'expired', 'lost')), 0)"""
_ON_EACH: Final = f"""array_distinct(transform(brokers, one -> case
    when one.logStart = 0 then 'lost'
    when claimed.idPlace is not null then if(claimed.idPlace < one.logStart, 'expired', 'lost')
    when claimed.queueOffset is null or claimed.queueId is null then 'unknown'
    else coalesce({_AT_QUEUE}, 'unknown') end))"""
AS_CLAIMED: Final = f"if(size({_ON_EACH}) = 1, get({_ON_EACH}, 0), 'unknown')"
_OF_ITS_BROKERS: Final = "exists(brokers, one -> one.name = queue.brokerName and one.logStart > 0)"
_OTHERWISE: Final = f"""(mayDetour and case
    when claimed.idPlace is not null then asClaimed = 'expired'
    when asClaimed = 'expired' then exists(systemQueues, queue -> claimed.queueOffset < queue.end and {_OF_ITS_BROKERS})
    else exists(systemQueues, queue -> claimed.queueOffset < queue.first and {_OF_ITS_BROKERS}) end)"""
"""Whether it would be another verdict, or none, if its place is one in a system's topic: before the first that this still has,
the copy may have expired or be lost."""
_OF_DETOUR: Final = """if(exists(brokers, one -> one.logStart > 0 and coalesce(
    not exists(systemQueues, queue -> queue.brokerName = one.name and claimed.queueOffset >= queue.first)
    or exists(systemQueues, queue -> queue.brokerName = one.name and claimed.queueOffset < queue.first), true)),
    'unknown', 'lost')"""
_MISSING: Final = f"""case
    when claimed.delayed and claimed.idPlace is null and claimed.queueId is not null and claimed.queueOffset is not null
        then {_OF_DETOUR}
    when asClaimed <> 'unknown' and coalesce({_OTHERWISE}, false) then 'unknown'
    else asClaimed end"""
_AMBIGUOUS: Final = """(claimed.uniqKey is null and claimed.idPlace is null and claimed.brokerName is null
    and size(heldBy) < size(brokers))"""
"""By its place alone, on several brokers: a message is there on some of them, and nobody knows whether it is this one."""
_INDEXED: Final = """(best.physicalOffset is null
    or not exists(everyBroker, one -> one.name = best.brokerName and one.hasQueues) or coalesce(
    exists(units, one -> one.physicalOffset = best.physicalOffset and one.size = best.storeSize), false))"""
OF_FOUND: Final = f"""case
    when best.isCorrupt then 'unreadable'
    when not best.isMoved and not best.isWaiting
        and (claimed.queueId <> best.queueId or claimed.queueOffset <> best.queueOffset) then 'elsewhere'
    when {_AMBIGUOUS} then 'unknown'
    when not {_INDEXED} then 'unindexed'
    when best.isWaiting then 'waiting'
    else 'stored' end"""
"""Of a row whose message is there."""
VERDICT: Final = f"if(best is null, {_MISSING}, {OF_FOUND})"
"""Of any.  Needs the column asClaimed (`AS_CLAIMED`), too."""
