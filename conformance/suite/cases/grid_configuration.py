"""The grid's rows about configuration: 25, 26 of a broker, 318, 319 of a name server.  What is set is what was set before."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import NEVER_MIND, NO_LIMIT, NO_RIGHT, NOTHING_TO_DO, Expect, changed, four
from conformance.suite.grid.goods import plain
from conformance.suite.grid.grid import Cell, grid
from conformance.suite.kit import Need, ResponseCode
from rmq_wire.headers.configuration import GetBrokerConfig, UpdateBrokerConfig
from rmq_wire.headers.naming import GetNamesrvConfig, UpdateNamesrvConfig

BLACK_LISTED = changed(NO_RIGHT, remark=re.compile("black list"))
BLACK_LISTED_KEYS = four(BLACK_LISTED, code=ResponseCode.NO_PERMISSION, remark=re.compile("Can not update config path"))

grid(
    UpdateBrokerConfig,
    plain(lambda: (UpdateBrokerConfig(), b"commercialBaseCount=1\n")),
    "AdminBrokerProcessor.updateBrokerConfig",
    body=True,
    missing={"body": NOTHING_TO_DO},
    mistyped={"body": Expect()},
    cells={
        "unknown-key": Cell(body=b"conformanceNoSuchKey=1\n", expect=Expect()),
        "permission-black-list": Cell(body=b"brokerConfigPath=/nowhere\n", expect=BLACK_LISTED, since=(5,)),
    },
    none={"limit": NO_LIMIT},
    alone=True,
    needs=(Need.OWN,),
)
grid(
    GetBrokerConfig,
    plain(GetBrokerConfig),
    "AdminBrokerProcessor.getBrokerConfig",
    ok=Expect(ext={"version": re.compile(r"^\{.*\"counter\"")}, body=re.compile(rb"(?m)^brokerName=")),
    none=NEVER_MIND,
)
grid(
    UpdateNamesrvConfig,
    plain(lambda: (UpdateNamesrvConfig(), b"orderMessageEnable=false\n")),
    "namesrv DefaultRequestProcessor.updateConfig",
    body=True,
    mistyped={"body": Expect()},
    missing={"body": NOTHING_TO_DO},
    cells={
        "unknown-key": Cell(body=b"conformanceNoSuchKey=1\n", expect=Expect()),
        "permission-black-list": Cell(body=b"configStorePath=/nowhere\n", expect=BLACK_LISTED_KEYS),
    },
    none={"limit": NO_LIMIT},
    alone=True,
    needs=(Need.NAMESRV,),
)
grid(
    GetNamesrvConfig,
    plain(GetNamesrvConfig),
    "namesrv DefaultRequestProcessor.getConfig",
    ok=Expect(body=re.compile(rb"(?m)^listenPort=")),
    none=NEVER_MIND,
)
