"""What can be wrong with a store: each kind of damage with its severity, what follows from it, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """messages are lost or wrong, or a broker refuses to start"""
    WARNING = "warning"
    """messages are there, but not found on some way, or a restart does more than it should"""


class Kind(NamedTuple):
    """One kind of damage."""

    severity: Severity
    title: str
    consequence: str
    remedy: str


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_REPAIR: Final = "rmq inspect repair DIR --to NEWDIR"
_REBUILD_QUEUES: Final = (
    f"A whole log has everything: {_REPAIR} builds the queues anew; so does a broker when consumequeue/ is moved away."
)
_REBUILD_INDEX: Final = f"A whole log has everything: {_REPAIR} builds the index anew. Queues and consumers are not concerned."
_LOG_FIRST: Final = (
    "The log is damaged, too (see the findings about it): what is in a file of it that can be restored comes first. "
    f"After that, or without that, {_REPAIR} builds queues and index for the messages that the log still has."
)
_FROM_REPLICA: Final = f"Restore the file from a replica or backup; without one, {_REPAIR} keeps everything before and behind it."

KINDS: Final[dict[str, Kind]] = {
    # the log
    "log-lost": Kind(
        _ERROR,
        "no message is left in the log, but others know of some",
        "All messages are lost; if queues begin at 0 again at the next start, groups with older positions miss new messages.",
        "Restore commitlog/ from a replica or backup before a broker starts.",
    ),
    "log-emptied": Kind(
        _WARNING,
        "no message is left in the log, whose beginning is gone, but others know of some",
        "Retention took all messages, as it does where nobody sends for days, or somebody removed the files.",
        "If nobody removed files, nothing is wrong. Else restore commitlog/ from a replica or backup before a broker starts.",
    ),
    "log-unit-broken": Kind(
        _ERROR,
        "bytes of the log are no message",
        "The messages in them are lost; recovery stops there, a broker that starts after a crash cuts the log off at this place.",
        _FROM_REPLICA,
    ),
    "log-zeroed": Kind(
        _ERROR,
        "zeros in the midst of the log",
        "Messages were never written or were lost by the file system; a broker that recovers cuts the log off at this place.",
        _FROM_REPLICA,
    ),
    "log-body-crc": Kind(
        _ERROR,
        "a body is not the one that was stored",
        "Consumers get wrong bytes, or an error; recovery after a crash stops at this message.",
        _FROM_REPLICA,
    ),
    "log-property-crc": Kind(
        _ERROR,
        "a message fails its own CRC property",
        "Something besides the body changed; with forceVerifyPropCRC recovery stops there.",
        _FROM_REPLICA,
    ),
    "log-own-offset": Kind(
        _ERROR,
        "a message says that it is somewhere else",
        "Look-ups by id and by queue refuse it; recovery stops there.",
        _FROM_REPLICA,
    ),
    "log-displaced": Kind(
        _ERROR,
        "the whole file belongs to another place of the log",
        "No message of it can be read at the offset where its queues look for it.",
        "Give the file the name that its messages say, if that place is free; else remove it and repair.",
    ),
    "log-cut": Kind(
        _ERROR,
        "a file ends before its end, with others behind it",
        "What stood there is lost; recovery that begins at or before this file drops all files behind it.",
        _FROM_REPLICA,
    ),
    "log-torn": Kind(
        _WARNING,
        "the log ends with bytes that are no message",
        "A write was interrupted, or the last message was damaged: a broker cuts it off at its next start.",
        "None for an interrupted write: the next start mends it. Else restore the file from a replica or backup.",
    ),
    "log-blank-size": Kind(
        _ERROR,
        "the filler at a file's end does not end there",
        "A reader that trusts it leaves the file at the wrong place.",
        _FROM_REPLICA,
    ),
    "log-hopeless": Kind(
        _ERROR,
        "too many damaged places; the rest of the file was not looked at",
        "The file is of little use.",
        _FROM_REPLICA,
    ),
    "log-file-missing": Kind(
        _ERROR,
        "a file of the log is missing between others",
        "All its messages are lost; queue entries that point there answer MESSAGE_WAS_REMOVING.",
        "Restore it from a replica or backup.",
    ),
    "log-file-size": Kind(
        _ERROR,
        "a file of the log has another size than the others",
        "A Java broker refuses to start on this directory.",
        "Restore the file; or set mappedFileSizeCommitLog to the size that the store was made with.",
    ),
    "log-sequence-gap": Kind(
        _ERROR,
        "queue offsets are skipped in the log",
        "Messages of that queue are lost, or were stored elsewhere; consumers get OFFSET errors or skip.",
        "Compare with a replica; the queue's unit says where the lost message was.",
    ),
    "log-sequence-back": Kind(
        _ERROR,
        "a queue offset stands in the log a second time",
        "One of the two messages is reached by no consumer.",
        "Find out which one counts: rmq inspect explain shows which the queue points to.",
    ),
    # consume queues
    "queue-file-missing": Kind(
        _ERROR,
        "a file of a queue is missing between others",
        "Consumers cannot read that range of the queue.",
        _REBUILD_QUEUES,
    ),
    "queue-file-size": Kind(
        _ERROR,
        "a file of a queue has another size than the others",
        "A Java broker refuses to start on this directory.",
        _REBUILD_QUEUES,
    ),
    "queue-file-empty": Kind(
        _WARNING,
        "a queue file without any unit",
        "A Java broker takes it for one with a message at offset 0 that does not exist.",
        "Move the file away while no broker runs.",
    ),
    "queue-missing": Kind(
        _ERROR,
        "messages in the log whose queue does not exist",
        "Consumers do not see these messages.",
        _REBUILD_QUEUES,
    ),
    "queue-unit-missing": Kind(
        _ERROR,
        "a message without its queue unit",
        "Consumers do not see this message.",
        _REBUILD_QUEUES,
    ),
    "queue-unit-wrong": Kind(
        _ERROR,
        "a queue unit is not that of its message",
        "Consumers get another message at this offset, or none.",
        _REBUILD_QUEUES,
    ),
    "queue-shifted": Kind(
        _ERROR,
        "queue units stand beside their places",
        "Consumers get each message at a wrong offset: some are skipped or come twice.",
        _REBUILD_QUEUES,
    ),
    "queue-tags-code": Kind(
        _WARNING,
        "a queue unit has not the hash of its message's tags",
        "Consumers that filter by tag miss the message or get it in vain.",
        _REBUILD_QUEUES,
    ),
    "queue-delay-time": Kind(
        _WARNING,
        "a delayed message's due time is not the one of its level",
        "It is delivered too early or too late.",
        _REBUILD_QUEUES,
    ),
    "queue-extension": Kind(
        _WARNING,
        "a queue unit whose extension is not its message's",
        "Consumers that filter miss the message or get it in vain.",
        _REBUILD_QUEUES,
    ),
    "queue-dangling": Kind(
        _ERROR,
        "a queue unit that points at no message of its queue",
        "Consumers get MESSAGE_WAS_REMOVING there and go on behind it.",
        _REBUILD_QUEUES,
    ),
    "queue-past-log": Kind(
        _ERROR,
        "a queue unit that points behind the end of the log",
        "The log lost its end, or the queue is from another store; new messages may appear under the offset of a lost one.",
        f"A broker drops such units when it starts after a crash; {_REPAIR} does so, too.",
    ),
    "queue-order": Kind(
        _ERROR,
        "queue units do not follow the order of the log",
        "Look-ups by time and recovery go wrong in this queue.",
        _REBUILD_QUEUES,
    ),
    "queue-hole": Kind(
        _ERROR,
        "empty units in the midst of a queue",
        "The queue ends there for a broker that starts; messages behind it are hidden.",
        _REBUILD_QUEUES,
    ),
    # index
    "index-file-size": Kind(
        _WARNING,
        "an index file has another size than the others",
        "A Java broker lengthens it silently and answers key queries from wrong places.",
        _REBUILD_INDEX,
    ),
    "index-geometry": Kind(
        _WARNING,
        "an index file in which slots and entries cannot be told apart",
        "Key queries find nothing in it.",
        _REBUILD_INDEX,
    ),
    "index-count": Kind(
        _WARNING,
        "an index header counts what is not there",
        "Entries behind its count are never found, or zeros are taken for entries.",
        _REBUILD_INDEX,
    ),
    "index-header": Kind(
        _WARNING,
        "an index header whose bounds are not those of its entries",
        "Key queries skip the file, or messages are indexed again after a start.",
        _REBUILD_INDEX,
    ),
    "index-slot": Kind(
        _WARNING,
        "a hash slot does not lead to its newest entry",
        "Key queries miss messages.",
        _REBUILD_INDEX,
    ),
    "index-cycle": Kind(
        _WARNING,
        "a chain of index entries leads back to itself",
        "A reader that does not count its steps never ends; key queries miss older messages.",
        _REBUILD_INDEX,
    ),
    "index-chain": Kind(
        _WARNING,
        "an index entry does not lead to the one before it",
        "Key queries miss older messages.",
        _REBUILD_INDEX,
    ),
    "index-order": Kind(
        _WARNING,
        "index entries do not follow the order of the log",
        "Key queries miss messages; recovery may cut the file.",
        _REBUILD_INDEX,
    ),
    "index-past-log": Kind(
        _WARNING,
        "an index entry that points behind the end of the log",
        "A key query answers with a message that is not there.",
        _REBUILD_INDEX,
    ),
    "index-wrong": Kind(
        _WARNING,
        "an index entry that no message of the log has",
        "A key query reads a wrong place of the log; or the message's keys are damaged, which only its own check sum would show.",
        _REBUILD_INDEX,
    ),
    "index-time": Kind(
        _WARNING,
        "an index entry does not have its message's time",
        "Key queries with a time window miss the message; or the message's store time is damaged.",
        _REBUILD_INDEX,
    ),
    "index-missing": Kind(
        _WARNING,
        "a message without its index entries",
        "Queries by key and by unique key do not find it.",
        _REBUILD_INDEX,
    ),
    # the rest
    "checkpoint-size": Kind(
        _WARNING,
        "the checkpoint has not 4096 bytes",
        "A broker reads zeros for what is missing and recovers more than it must.",
        "Remove it: a broker makes a new one, and rebuilds more at its next start.",
    ),
    "checkpoint-future": Kind(
        _ERROR,
        "the checkpoint is ahead of the log",
        "After a crash recovery begins too late: messages stored before that are missing from queues and index.",
        "Remove it: a broker makes a new one, and rebuilds more at its next start.",
    ),
    "checkpoint-wrong": Kind(
        _WARNING,
        "the checkpoint holds a value that cannot be",
        "Recovery begins at a wrong place.",
        "Remove it: a broker makes a new one, and rebuilds more at its next start.",
    ),
    "config-broken": Kind(
        _ERROR,
        "a configuration file cannot be read, nor can its backup",
        "A Java broker refuses to start.",
        "Restore it; or `rmq inspect repair DIR --tables`: topics and groups are made again, positions begin anew.",
    ),
    "config-backup": Kind(
        _WARNING,
        "a configuration file cannot be read; its backup can",
        "A broker takes the backup: the last changes are lost.",
        "Compare the two by hand before the next start.",
    ),
    "position-ahead": Kind(
        _WARNING,
        "a consumer's position is behind the end of its queue",
        "The next messages are skipped until the queue has grown past it, or the client starts over by its own rule.",
        "Reset the group's position (mqadmin resetOffsetByTime) once it is clear where the queue's end went.",
    ),
    "timer-size": Kind(
        _ERROR,
        "a timer file has another size than it must have",
        "A Java broker refuses to start.",
        "Move timerwheel, timerlog/ and config/timercheck away together: the wheel is built anew from its topic.",
    ),
    "stray": Kind(
        _WARNING,
        "something that no broker put there",
        "Java refuses a store with unknown files among those of the log and queues; elsewhere it goes unseen.",
        "Move it out of the store.",
    ),
    "file-unreadable": Kind(
        _ERROR,
        "a file could not be read",
        "What is in it was not checked.",
        "Check permissions and the disk, then look again.",
    ),
}


def remedy_of(code: str, log_is_whole: bool) -> str:
    """What to do.  Queues and index can be built of a log that has everything; of one that has not, only in part."""
    remedy = KINDS[code].remedy
    if remedy not in (_REBUILD_QUEUES, _REBUILD_INDEX):
        return remedy
    return remedy.replace("A whole log", "The log") if log_is_whole else _LOG_FIRST


def as_markdown() -> str:
    """All kinds as a table for a document."""
    rows = [f"| `{code}` | {kind.severity} | {kind.title} | {kind.consequence} | {kind.remedy} |" for code, kind in KINDS.items()]
    return "\n".join(["| kind | severity | what | consequence | remedy |", "| --- | --- | --- | --- | --- |", *rows]) + "\n"
