"""The push consumer for code that knows no async."""

from __future__ import annotations

import threading

import pytest

from rmq_client.blocking import connect
from rmq_client.consuming.listener import Context
from rmq_client.errors import CallerError, NoRoute
from rmq_client.messages import Message
from tests.client.consumers import FIRST, Messages
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S


@pytest.mark.parametrize("orderly", [False, True])
def test_messages_come_in_other_threads_and_progress_is_kept(ours: Subject, orderly: bool) -> None:
    topic = f"plain-{orderly}"
    seen: list[bytes] = []
    threads: set[int] = set()
    done = threading.Event()

    def listen(messages: Messages, context: Context) -> None:
        threads.add(threading.get_ident())
        seen.extend(message.body for message in messages)
        if len(seen) == 6:
            done.set()

    with connect(ours.namesrv) as client:
        client.topics.create(topic, queues=1)
        producer = client.producer(f"{topic}-p")
        for number in range(6):
            producer.send(Message(topic, b"%d" % number))
        with client.push_consumer(f"{topic}-g", {topic: "*"}, listen, orderly=orderly, **FIRST) as consumer:
            assert done.wait(PATIENCE_S)
            assert [queue.topic for queue in consumer.queues] == [topic]
            consumer.pause()
            consumer.resume()
            consumer.consume_thread_max = 3
            with pytest.raises(CallerError):
                consumer.consume_thread_max = 0
        assert sorted(seen) == [b"%d" % number for number in range(6)]
        assert threading.get_ident() not in threads
        puller = client.puller(f"{topic}-g")
        [queue] = puller.queues(topic)
        assert puller.committed_offset(queue) == 6


def test_errors_come_out_and_the_client_lives_on(ours: Subject) -> None:
    with connect(ours.namesrv) as client:
        for topics, settings, error in (({"never-made": "*"}, {}, NoRoute), ({"t": "*"}, {"colour": 1}, CallerError)):
            with pytest.raises(error), client.push_consumer("g", topics, print, **settings):
                pass
        client.topics.create("plain-error", queues=1)
        with pytest.raises(KeyError), client.push_consumer("g", {"plain-error": "*"}, print):
            raise KeyError("mine")
        assert "plain-error" in client.topics.names()
