"""A program: the C++ client 2.x by its Python binding (the wheel `rocketmq` 0.4.4) consumes, then sends, and says what came.

    python cpp_client.py NAMESRV TOPIC GROUP COUNT push|orderly|pull

It prints `ready` when the consumer has been started, a line per message, then ends.  A line on its standard input sends COUNT.
It knows nothing of this repository: it runs in an environment where the wheel is.
"""

import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

WAIT_S = 60
"""After so long without a message it gives up."""


def send(namesrv, topic, group, count):
    producer = Producer(group + "-P")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    for number in range(count):
        message = Message(topic)
        message.set_keys(f"k{number}")
        message.set_tags("TagA")
        message.set_body(f"m{number}")
        producer.send_sync(message)
    producer.shutdown()


def say(message):
    print("got " + message.body.decode(), flush=True)


def push(namesrv, topic, group, count, orderly):
    got, enough = set(), threading.Event()

    def on_message(message):
        say(message)
        got.add(message.body)
        if len(got) == count:
            enough.set()

    consumer = PushConsumer(group, orderly=orderly)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, on_message)
    consumer.start()
    print("ready", flush=True)
    sys.stdin.readline()
    send(namesrv, topic, group, count)
    enough.wait(WAIT_S)
    consumer.shutdown()


def pull(namesrv, topic, group, count):
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    print("ready", flush=True)
    sys.stdin.readline()
    send(namesrv, topic, group, count)
    got, end = set(), time.monotonic() + WAIT_S
    while len(got) < count and time.monotonic() < end:
        for message in consumer.pull(topic):
            say(message)
            got.add(message.body)
    consumer.shutdown()


def main():
    namesrv, topic, group, count, how = sys.argv[1:]
    if how == "pull":
        pull(namesrv, topic, group, int(count))
    else:
        push(namesrv, topic, group, int(count), how == "orderly")
    print("end", flush=True)
    os._exit(0)  # its threads do not always end


main()
