"""A client in a process that is forked: the child has no thread for it, is told so, and goes on with one of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.talk import PATIENCE_S

BLOCKING = """
import os
from rmq_client.blocking import connect
from rmq_client.errors import ClientClosed, NetworkError
with connect("127.0.0.1:1") as client:
    puller = client.puller()
    child = os.fork()
    if not child:
        try:
            puller.queues("T")
        except ClientClosed as error:
            print(error, flush=True)
if child:
    print("child", os.waitpid(child, 0)[1], flush=True)
with connect("127.0.0.1:1") as again:
    try:
        again.puller().queues("T")
    except NetworkError as error:
        print(type(error).__name__, flush=True)
os._exit(0)
"""
ASYNCIO = """
import asyncio, os
from rmq_client.aio import connect
from rmq_client.errors import ClientClosed
async def main():
    async with connect("127.0.0.1:1") as client:
        child = os.fork()
        if not child:
            try:
                await client.puller().queues("T")
            except ClientClosed as error:
                print(error, flush=True)
    if child:
        print("child", os.waitpid(child, 0)[1], flush=True)
    os._exit(0)
asyncio.run(main())
"""


@pytest.mark.parametrize(("script", "own"), [(BLOCKING, ["Unreachable"]), (ASYNCIO, [])], ids=["blocking", "aio"])
def test_a_child_is_told_and_may_connect_anew(script: str, own: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    said, *others = done.stdout.splitlines()
    assert "connect anew in each process" in said, done.stderr
    assert others == [*own, "child 0", *own]
