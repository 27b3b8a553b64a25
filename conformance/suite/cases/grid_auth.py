"""The grid's rows about users and access control: 3001 to 3010, on a broker that keeps none (its default)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from conformance.suite.grid.expect import INVALID, NO_LIMIT, NO_PERMISSION, NO_RIGHT, REFUSED, Expect, Expected
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import Trial
from rmq_wire.declare import Request
from rmq_wire.headers.auth import (
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
    UpdateAcl,
    UpdateUser,
)

SINCE = (5, 3)
NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
USER = {"username": "conf", "password": "secret1", "userType": "Normal", "userStatus": "enable"}
ACL = {
    "subject": "User:conf",
    "policies": [{"policyType": "Custom", "entries": [{"resource": "Topic:conf", "actions": ["Pub"], "decision": "Allow"}]}],
}


def with_json(make: Callable[[], Request], body: Mapping[str, Any] | None = None) -> Callable[[Trial], Any]:
    """A request with a JSON body, or without one."""

    async def good(t: Trial) -> Asked:
        return make() if body is None else (make(), json.dumps(body).encode())

    return good


NO_SUBJECT: Mapping[str, Expect] = {"": NO_RIGHT, "5.3": REFUSED}
MISSING: Mapping[type[Request], Expected] = {
    **dict.fromkeys((CreateUser, UpdateUser, GetUser), INVALID),
    **dict.fromkeys((DeleteUser, DeleteAcl), NO_RIGHT),
    GetAcl: NO_SUBJECT,
}
"""Whose user or subject is looked at before it shows that there are none."""
UNKNOWN: Mapping[type[Request], Expected] = {DeleteAcl: NO_RIGHT, GetAcl: NO_SUBJECT}
rows: list[tuple[type[Request], Callable[[], Request], Mapping[str, Any] | None]] = [
    (CreateUser, lambda: CreateUser(username="conf"), USER),
    (UpdateUser, lambda: UpdateUser(username="conf"), USER),
    (DeleteUser, lambda: DeleteUser(username="conf"), None),
    (GetUser, lambda: GetUser(username="conf"), None),
    (ListUsers, lambda: ListUsers(filter="conf"), None),
    (CreateAcl, lambda: CreateAcl(subject="User:conf"), ACL),
    (UpdateAcl, lambda: UpdateAcl(subject="User:conf"), ACL),
    (DeleteAcl, lambda: DeleteAcl(subject="User:conf", policy_type="CUSTOM", resource="Topic:conf"), None),
    (GetAcl, lambda: GetAcl(subject="User:conf"), None),
    (ListAcls, lambda: ListAcls(subject_filter="User:conf", resource_filter="Topic:conf"), None),
]
for request, make, body in rows:
    missing = MISSING.get(request, REFUSED)
    unknown = UNKNOWN.get(request, REFUSED)
    names = [field.wire for field in request.fields()]
    grid(
        request,
        with_json(make, body),
        f"AdminBrokerProcessor: {request.__name__}",
        ok=REFUSED,
        missing={name: missing if name == names[0] else REFUSED for name in names},
        body=body is not None,
        cells={f"unknown-{names[0].lower()}": Cell(change={names[0]: "nobody"}, expect=unknown)},
        none=NONE,
        since=SINCE,
    )
