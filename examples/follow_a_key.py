"""One key, followed through the files of a broker: hash, slot of the index, entry, place in the log; and the queue beside it.

python follow_a_key.py STORE       # the directory that the broker keeps its files in, as ./.rmq
"""

from __future__ import annotations

import subprocess
import sys

from scenario import NAMESRV, fresh, wait_for

from rmq_client import Message
from rmq_client.blocking import connect


def inspect(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmq_cli.main", "inspect", *arguments], capture_output=True, text=True, check=False
    )


def main() -> None:
    store, topic = sys.argv[1], fresh("followed")
    with connect(NAMESRV) as client:
        sent = client.producer("shop").send(Message(topic, b"hello", keys=["order-7"]))
    by_key = ("explain", store, "--topic", topic, "--key", "order-7")
    wait_for("the index has the key", lambda: inspect(*by_key).returncode == 0)
    print(inspect(*by_key).stdout)
    place = ("--queue", str(sent.queue.queue_id), "--at", str(sent.queue_offset))
    by_queue = inspect("explain", store, "--topic", topic, *place)
    print(by_queue.stdout)
    assert by_queue.returncode == 0
    place_in_log = int(sent.offset_message_id[-16:], 16)
    for found in (inspect(*by_key).stdout, by_queue.stdout):
        assert f"Commit log at {place_in_log}\n" in found
    print(f"both ways lead to {sent.message_id}, at {place_in_log} in the log")


if __name__ == "__main__":
    main()
