"""A program: the C++ client 2.x by its Python binding (the wheel `rocketmq` 0.4.4) consumes what it sends, and says what came.

    python cpp_client.py NAMESRV TOPIC GROUP COUNT push|orderly|pull

A line `QUEUE BODY` for each message.  It knows nothing of this repository: it runs where the wheel is.
"""

import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

WAIT_S = 60
"""After so long without the last message it gives up."""


def send(namesrv, topic, group, count):
    producer = Producer(group + "-P")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    for number in range(count):
        message = Message(topic)
        message.set_keys(f"k{number}")
        message.set_tags("TagA")
        message.set_body(f"m{number:03}")
        producer.send_sync(message)
    producer.shutdown()


def say(message):
    os.write(1, f"{message.queue_id} {message.body.decode()}\n".encode())  # one call: several threads say something


def push(namesrv, topic, group, count, orderly):
    got, enough = set(), threading.Event()

    def on_message(message):
        say(message)
        got.add(message.body)
        if len(got) == count:
            enough.set()

    consumer = PushConsumer(group, orderly=orderly)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, on_message, "TagA || TagB")
    consumer.start()
    enough.wait(WAIT_S)
    consumer.shutdown()


def pull(namesrv, topic, group, count):
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    got, end = set(), time.monotonic() + WAIT_S
    while len(got) < count and time.monotonic() < end:
        for message in consumer.pull(topic):
            say(message)
            got.add(message.body)
    consumer.shutdown()


def main():
    namesrv, topic, group, count, how = sys.argv[1:]
    send(namesrv, topic, group, int(count))  # before it consumes: a new group begins at the end of a queue that is empty
    if how == "pull":
        pull(namesrv, topic, group, int(count))
    else:
        push(namesrv, topic, group, int(count), how == "orderly")
    os._exit(0)  # its threads do not always end


main()
