"""A broker's runtime figures (28), which the reference can answer only after it has taken a first sample."""

from __future__ import annotations

from conformance.subjects.address import SAMPLING
from conformance.suite.link import Answer
from conformance.suite.trial import Trial
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo


async def sampled(t: Trial) -> Answer:
    """The figures, asked for until there is a sample; not judged otherwise."""

    async def asked() -> Answer | None:
        answer = await t.broker.ask(GetBrokerRuntimeInfo())
        return None if SAMPLING in (answer.remark or "") else answer

    return await t.until("the broker has taken a first sample", asked)
