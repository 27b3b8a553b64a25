"""Whether brokers can evaluate what a consumer subscribes to: asked before it joins, since pulls that fail tell the log alone.

Source: `MQClientInstance.checkClientInBroker`, which asks one broker; here the next one is asked where one cannot be.
"""

from __future__ import annotations

from rmq_client.core import ClientCore
from rmq_client.errors import NetworkError
from rmq_wire.bodies.heartbeat import TAG, CheckClientRequest, SubscriptionData
from rmq_wire.headers.clients import CheckClientConfig


async def check_subscription(client: ClientCore, group: str, wanted: SubscriptionData) -> None:
    """One by tags is always good.  Raises `BrokerError` with what is wrong, `NetworkError` when no broker of it answers."""
    if wanted.expression_type == TAG:
        return
    route = await client.route(wanted.topic)
    body = CheckClientRequest(client_id=client.client_id, group=group, subscription_data=wanted).encode()
    failed: NetworkError | None = None
    for broker in sorted({queue.broker_name for queue in route.readable}):
        place = client.routes.reading_place(broker)
        if place is None:
            continue
        try:
            await client.ask(place.address, CheckClientConfig(), body)
            return
        except NetworkError as error:
            failed = error
    if failed is not None:
        raise failed
