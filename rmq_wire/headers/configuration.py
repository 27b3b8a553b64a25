"""A broker's configuration, read and changed while it runs."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Header, Request, Role


class UpdateBrokerConfig(Request, code=RequestCode.UPDATE_BROKER_CONFIG, to=Role.BROKER):
    """Change configuration values.  The body is the text of a Java properties file."""


class GetBrokerConfigResponse(Header):
    """The `DataVersion` of the configuration, as JSON.  Source: `GetBrokerConfigResponseHeader`."""

    version: str


class GetBrokerConfig(Request, code=RequestCode.GET_BROKER_CONFIG, to=Role.BROKER, reply=GetBrokerConfigResponse):
    """The whole configuration: the text of a Java properties file."""
