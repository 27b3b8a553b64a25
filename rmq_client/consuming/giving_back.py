"""What becomes of a message that was not consumed: the broker keeps a copy in the group's retry topic, to be delivered later.

Where the broker cannot be asked, the copy is sent like any other message; only when that fails, too, does the consumer try again
by itself.  Source: `DefaultMQPushConsumerImpl.sendMessageBack`.
"""

from __future__ import annotations

from typing import Final

from rmq_client.consuming.received import ReceivedMessage
from rmq_client.core import ClientCore
from rmq_client.errors import ClientError, NoBroker
from rmq_client.messages import Message
from rmq_client.producing.producer import Producer
from rmq_client.settings import ConsumerSettings, ProducerSettings
from rmq_wire import names, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.headers.send_back import ConsumerSendMsgBack

ASK_MS: Final = 5_000
FIRST_LEVEL: Final = 3
"""The delay of the first retry; each further one is a level more."""
DEAD: Final = -1
INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"


def inner_producer(client: ClientCore) -> Producer:
    """The one that passes messages on for all consumers of a client; no heartbeat names it."""
    return Producer(client, INNER_PRODUCER_GROUP, ProducerSettings(), known=False)


class GivingBack:
    """For one consumer.  group: on the wire."""

    def __init__(self, client: ClientCore, group: str, settings: ConsumerSettings, producer: Producer) -> None:
        self._client = client
        self._group = group
        self._settings = settings
        self._producer = producer

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """delay_level: 0 lets the broker choose by the number of attempts, -1 sends it to the dead letters.

        A damaged one goes there at once: the broker gives the copy a check sum of its own, and nobody could tell any more.
        Raises `ClientError` when neither way works: the message is still this consumer's.
        """
        try:
            address = self._client.routes.master(message.queue.broker_name)
            if address is None:
                raise NoBroker(f"no route names a master of {message.queue.broker_name}")
            request = ConsumerSendMsgBack(
                offset=message.unit.physical_offset,
                group=self._group,
                delay_level=DEAD if message.damaged else delay_level,
                origin_msg_id=message.message_id,
                origin_topic=message.stored_topic,
                max_reconsume_times=self._settings.max_retries_asked_for,
                bname=message.queue.broker_name,
            )
            await self._client.ask(address, request, timeout_ms=ASK_MS)
        except ClientError as error:
            self._client.log.warning("%s is not taken back, it is sent instead: %s", repr(message), str(error))
            await self.send_copy(message)

    async def send_copy(self, message: ReceivedMessage) -> None:
        """Send it to the retry topic: the broker delays it by its tries, or gives it up.  Raises `ClientError`."""
        packing = message.unit.sys_flag & (sys_flag.COMPRESSED | sys_flag.COMPRESSION_MASK)
        await self._producer.pass_on(self._copy(message), packing)

    def _copy(self, message: ReceivedMessage) -> Message:
        pairs = dict(message.properties)
        pairs.setdefault(prop.ORIGIN_MESSAGE_ID, message.message_id)
        pairs[prop.RETRY_TOPIC] = message.topic_on_wire
        pairs[prop.RECONSUME_TIME] = str(message.reconsume_times + 1)
        pairs[prop.MAX_RECONSUME_TIMES] = str(0 if message.damaged else self._settings.max_retries_asked_for)
        pairs.pop(prop.TRAN_MSG, None)
        pairs[prop.DELAY] = str(FIRST_LEVEL + message.reconsume_times)
        body = bytes(message.unit.body)  # as it is stored: one that nobody can unpack must get to the dead letters, too
        return Message(names.retry_topic(self._group), body, properties=pairs, flag=message.unit.flag)
