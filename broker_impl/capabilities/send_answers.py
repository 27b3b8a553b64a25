"""What a sender is answered when its message is stored, and the texts of the reference for when it is not.

The success is the answer that leaves most often: templates hold all of it but four values, and for one message in the JSON form
one format has the message id in it, too.  Every answer of a send, the refusals too, carries region and trace switch beside its
fields.

Java: `SendMessageProcessor.handlePutMessageResult`, `preSend`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial
from typing import Final

import msgspec

from broker_impl.engine.answers import LATER, Answer, Done, Durable, Reply, Settled
from broker_impl.engine.call import Call
from broker_impl.intake import PutStatus, not_taken
from rmq_store.errors import StoreError
from rmq_store.log.draft import Placed
from rmq_wire import property_names as prop
from rmq_wire import sys_flag
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.command import ONE_WAY, AnswerTemplate, Form
from rmq_wire.encoding import frame_prefix
from rmq_wire.headers.send import SendMessageResponse
from rmq_wire.implied.timers import MAX_DELAY_S
from rmq_wire.message_id import offset_message_id

LIGHT_QUEUES_EXCEEDED: Final = (
    "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num exceed "
    "maxLmqConsumeQueueNum config num, default limit 2w."
)
_FIELDS: Final = ("msg_id", "queue_id", "queue_offset", "transaction_id")
_MARKS: Final = (b'"1900000001"', b'"\xee\x80\x81"', b"\xee\x80\x82", b'"1900000003"', b":1900000004,")
"""What stands for queue id, unique key, message id, queue offset and opaque in a specimen, as they follow each other."""
_json: Final = msgspec.json.Encoder().encode


class SendAnswers:
    """The answers of one broker.

    What goes into remarks: `max_message_size()`, `disk_use()` (the text of the used ratios), `timer_limits()` (seconds ahead, and
    messages in a slot).
    """

    def __init__(
        self,
        store_host: bytes,
        *,
        region: str,
        trace_on: bool,
        sync_flush: bool,
        max_message_size: Callable[[], int],
        disk_use: Callable[[], str],
        timer_limits: Callable[[], tuple[int, int]] = lambda: (MAX_DELAY_S, 0),
    ) -> None:
        self._timer_limits = timer_limits
        self._sync_flush = sync_flush
        self._failed = self.undone
        self.ext = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false"}
        self._host = offset_message_id(store_host, 0)[: 2 * len(store_host)]
        self._max_message_size = max_message_size
        self._disk_use = disk_use
        self._stored = self._template(ResponseCode.SUCCESS, _FIELDS)
        self._late = self._template(ResponseCode.FLUSH_DISK_TIMEOUT, _FIELDS)
        self._one = self._format()
        self._nameless = self._template(ResponseCode.SUCCESS, _FIELDS[:-1])
        self._late_nameless = self._template(ResponseCode.FLUSH_DISK_TIMEOUT, _FIELDS[:-1])
        self._inner = self._template(ResponseCode.SUCCESS, (*_FIELDS, "batch_uniq_id"))
        self._recallable = self._template(ResponseCode.SUCCESS, (*_FIELDS, "recall_handle"))
        self._late_recallable = self._template(ResponseCode.FLUSH_DISK_TIMEOUT, (*_FIELDS, "recall_handle"))
        self._late_inner = self._template(ResponseCode.FLUSH_DISK_TIMEOUT, (*_FIELDS, "batch_uniq_id"))

    def _template(self, code: int, fields: tuple[str, ...]) -> AnswerTemplate:
        return AnswerTemplate(SendMessageResponse, fields, constants=self.ext, code=code)

    def _format(self) -> bytes:
        """The JSON header of one message's success, its values still to be filled in."""
        specimen = self._stored.render(Form.JSON, 1900000004, "\ue002", 1900000001, 1900000003, "\ue001")
        header = specimen[len(frame_prefix(0, 0, Form.JSON)) :].replace(b"%", b"%%")
        places = [header.index(mark) for mark in _MARKS]
        assert places == sorted(places), "the fields have another order"
        for mark, form in zip(_MARKS, (b'"%d"', b"%b", self._host.encode() + b"%016X", b'"%d"', b":%d,"), strict=True):
            header = header.replace(mark, form)
        return header

    def one(self, form: Form, opaque: int, physical_offset: int, queue_id: int, queue_offset: int, unique_key: str) -> bytes:
        """SUCCESS for one message: the same as `stored`, quicker."""
        if form:
            return self.stored(form, opaque, self.message_id(physical_offset), queue_id, queue_offset, unique_key)
        header = self._one % (queue_id, _json(unique_key), physical_offset, queue_offset, opaque)
        return frame_prefix(len(header), 0, 0) + header

    def message_id(self, physical_offset: int) -> str:
        """The offset message id of a unit that this broker stores."""
        return f"{self._host}{physical_offset:016X}"

    def stored(self, form: Form, opaque: int, message_id: str, queue_id: int, queue_offset: int, unique_key: str | None) -> bytes:
        """SUCCESS.  `unique_key` becomes the transaction id; a batch may have none."""
        if unique_key is None:
            return self._nameless.render(form, opaque, message_id, queue_id, queue_offset)
        return self._stored.render(form, opaque, message_id, queue_id, queue_offset, unique_key)

    def late_one(self, form: Form, opaque: int, physical_offset: int, queue_id: int, queue_offset: int, unique_key: str) -> bytes:
        """The same message as in `one`, not confirmed by the disk in time."""
        return self.late(form, opaque, self.message_id(physical_offset), queue_id, queue_offset, unique_key)

    def late(self, form: Form, opaque: int, message_id: str, queue_id: int, queue_offset: int, unique_key: str | None) -> bytes:
        """FLUSH_DISK_TIMEOUT: stored, but the disk has not confirmed it in time.  Clients read the same fields."""
        if unique_key is None:
            return self._late_nameless.render(form, opaque, message_id, queue_id, queue_offset)
        return self._late.render(form, opaque, message_id, queue_id, queue_offset, unique_key)

    def inner(self, form: Form, opaque: int, message_id: str, queue_id: int, queue_offset: int, unique_key: str) -> bytes:
        """SUCCESS for a batch stored as one unit: a further field of the answer says so."""
        return self._inner.render(form, opaque, message_id, queue_id, queue_offset, unique_key, unique_key)

    def late_inner(self, form: Form, opaque: int, message_id: str, queue_id: int, queue_offset: int, unique_key: str) -> bytes:
        """FLUSH_DISK_TIMEOUT for the same."""
        return self._late_inner.render(form, opaque, message_id, queue_id, queue_offset, unique_key, unique_key)

    def one_stored(
        self, call: Call, queue_id: int, placed: Placed, unique_key: str, wait: str, recall_handle: str | None = None
    ) -> Answer:
        """What the handler returns when one message is staged."""
        command = call.command
        if command.flag & ONE_WAY:
            return LATER
        if recall_handle is not None:
            message_id = self.message_id(placed.physical_offset)
            said = (command.form, command.opaque, message_id, queue_id, placed.queue_offset, unique_key, recall_handle)
            late_one = partial(self._late_recallable.render, *said)
            return Durable(self._recallable.render(*said), placed.end_offset, _waits(wait), late_one, self._failed)
        form, opaque, at, queue_offset = command.form, command.opaque, placed.physical_offset, placed.queue_offset
        frame = self.one(form, opaque, at, queue_id, queue_offset, unique_key)
        if not self._sync_flush:
            return Durable(frame, placed.end_offset, True, None, self._failed)
        late = partial(self.late_one, form, opaque, at, queue_id, queue_offset, unique_key)
        return Durable(frame, placed.end_offset, _waits(wait), late, self._failed)

    def batch_stored(self, call: Call, queue_id: int, placed: Placed, ids: str, common: dict[str, str]) -> Done:
        """The same for a batch; `ids`: offset message ids, with commas."""
        command = call.command
        if command.flag & ONE_WAY:
            return LATER
        said = (command.form, command.opaque, ids, queue_id, placed.queue_offset, common.get(prop.UNIQ_KEY))
        late = partial(self.late, *said)
        waits = _waits(common.get(prop.WAIT, ""))
        return Durable(self.stored(*said), placed.end_offset, waits, late, self._failed)

    def inner_stored(self, call: Call, queue_id: int, placed: Placed, values: dict[str, str]) -> Done:
        """The same for a batch in one unit, whose properties are `values`."""
        command = call.command
        if command.flag & ONE_WAY:
            return LATER
        message_id = self.message_id(placed.physical_offset)
        said = (command.form, command.opaque, message_id, queue_id, placed.queue_offset, values[prop.UNIQ_KEY])
        waits = _waits(values.get(prop.WAIT, ""))
        return Durable(self.inner(*said), placed.end_offset, waits, partial(self.late_inner, *said), self._failed)

    def undone(self, error: BaseException) -> Settled:
        """The turn was not written, or the disk refused to say that it has it."""
        status = not_taken(error).status if isinstance(error, StoreError) else PutStatus.SERVICE_NOT_AVAILABLE
        return self.refusal(status)

    def refusal(self, status: PutStatus) -> Reply:
        """What a sender is answered for a put that failed."""
        match status:
            case PutStatus.MESSAGE_ILLEGAL | PutStatus.PROPERTIES_SIZE_EXCEEDED:
                code, remark = (
                    ResponseCode.MESSAGE_ILLEGAL,
                    (
                        "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
                        f"{self._max_message_size()}B, msg properties length limit 32KB."
                    ),
                )
            case PutStatus.CREATE_MAPPED_FILE_FAILED:
                code, remark = ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken."
            case PutStatus.WHEEL_TIMER_NOT_ENABLE:
                code, remark = ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
            case PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
                code, remark = (
                    ResponseCode.MESSAGE_ILLEGAL,
                    (
                        "timer message illegal, the delay time should not be bigger than the max delay "
                        f"{self._timer_limits()[0] * 1000}ms; or if set del msg, the delay time should be bigger than the "
                        "current time"
                    ),
                )
            case PutStatus.WHEEL_TIMER_FLOW_CONTROL:
                most = self._timer_limits()[1]
                code, remark = (
                    ResponseCode.SYSTEM_ERROR,
                    (
                        f"timer message is under flow control, max num limit is {2 * most} or the current value is greater "
                        f"than {most} and less than {2 * most}, trigger random flow control"
                    ),
                )
            case PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
                code, remark = ResponseCode.LMQ_QUOTA_EXCEEDED, LIGHT_QUEUES_EXCEEDED
            case PutStatus.SERVICE_NOT_AVAILABLE:
                code, remark = (
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                    (
                        "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
                        f"[{self._disk_use()}], messages are put to the slave, message store has been shut down, etc."
                    ),
                )
        return Reply(code=code, remark=remark, ext=self.ext)


def _waits(wait: str) -> bool:
    """`Message.isWaitStoreMsgOK`."""
    return not wait or wait.lower() == "true"


def human_time(wall_ms: int, zone: tzinfo | None) -> str:
    """`UtilAll.timeMillisToHumanString2`."""
    time = datetime.fromtimestamp(wall_ms // 1000, zone)
    return f"{time:%Y-%m-%d %H:%M:%S},{wall_ms % 1000:03d}"


def topic_text(topic: TopicConfig) -> str:
    """`TopicConfig.toString`."""
    attributes = ", ".join(f"{name}={value}" for name, value in topic.attributes.items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={sys_flag.perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={'true' if topic.order else 'false'}, attributes={{{attributes}}}]"
    )
