"""The same client in TLS: the servers' certificates are checked, and what is wrong with one is said.

`tls/` has a self-signed certificate for 127.0.0.1, made for these tests with openssl, good for a hundred years.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest
import trio

from rmq_client.client import connect
from rmq_client.connections import split
from rmq_client.errors import Unreachable
from rmq_client.messages import Message
from tests.client.fake_cluster import BROKER_A, NAMESRV, FakeCluster, FakeServer
from tests.support.talk import PATIENCE_S

PEMS = Path(__file__).parent / "tls"


def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(PEMS / "cert.pem", PEMS / "key.pem")
    return context


async def serve(cluster: FakeCluster, nursery: trio.Nursery) -> str:
    """A name server and a broker on loopback, in TLS; the name server's address."""
    addresses = {}
    for address in (NAMESRV, BROKER_A):
        server = cluster.servers[address]
        [listener] = await trio.open_ssl_over_tcp_listeners(0, server_context(), host="127.0.0.1")
        addresses[address] = f"127.0.0.1:{listener.transport_listener.socket.getsockname()[1]}"  # type: ignore[attr-defined]
        nursery.start_soon(trio.serve_listeners, partial(quietly, server), [listener])
    cluster.brokers = {"broker-a": addresses[BROKER_A]}
    return addresses[NAMESRV]


async def quietly(server: FakeServer, stream: trio.SSLStream[trio.SocketStream]) -> None:
    try:
        await server.serve(stream)
    except* (trio.BrokenResourceError, ssl.SSLError):
        pass


async def test_messages_travel_in_tls() -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            namesrv = await serve(cluster, nursery)
            async with connect(namesrv, tls=ssl.create_default_context(cafile=PEMS / "cert.pem")) as client:
                producer = client.producer("P")
                async with trio.open_nursery() as sending:
                    for number in range(50):
                        sending.start_soon(producer.send, Message("T", b"%d" % number * 1_000))
            assert len(cluster.stored) == 50
            assert cluster.a.connections == 1
            nursery.cancel_scope.cancel()


async def test_a_certificate_that_nobody_signed_is_refused() -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            namesrv = await serve(cluster, nursery)
            async with connect(namesrv, tls=ssl.create_default_context()) as client:
                with pytest.raises(Unreachable, match="certificate verify failed"):
                    await client.route("T")
            nursery.cancel_scope.cancel()


async def test_a_server_that_speaks_no_tls() -> None:
    async def deaf(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)
        await stream.send_all(b"hello, this is no TLS")
        await stream.receive_some(1)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, deaf, [listener])
            address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
            assert split(address)[0] == "127.0.0.1"
            async with connect(address, tls=ssl.create_default_context()) as client:
                with pytest.raises(Unreachable):
                    await client.route("T")
            nursery.cancel_scope.cancel()
