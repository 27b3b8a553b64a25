"""Users and access control lists of a broker."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Request, Role


class CreateUser(Request, code=RequestCode.AUTH_CREATE_USER, to=Role.BROKER):
    """Create a user.  The body is a `UserInfo`.  Source: `CreateUserRequestHeader`."""

    username: str | None = None


class UpdateUser(Request, code=RequestCode.AUTH_UPDATE_USER, to=Role.BROKER):
    """Change a user's password, kind or status.  The body is a `UserInfo`.  Source: `UpdateUserRequestHeader`."""

    username: str | None = None


class DeleteUser(Request, code=RequestCode.AUTH_DELETE_USER, to=Role.BROKER):
    """Delete a user.  Source: `DeleteUserRequestHeader`."""

    username: str | None = None


class GetUser(Request, code=RequestCode.AUTH_GET_USER, to=Role.BROKER):
    """A user's data: a `UserInfo`, or no body when there is none of that name.  Source: `GetUserRequestHeader`."""

    username: str | None = None


class ListUsers(Request, code=RequestCode.AUTH_LIST_USER, to=Role.BROKER):
    """The users whose names contain `filter`: a list of `UserInfo`.  Source: `ListUsersRequestHeader`."""

    filter: str | None = None


class CreateAcl(Request, code=RequestCode.AUTH_CREATE_ACL, to=Role.BROKER):
    """Give a subject (`User:name`) an access control list.  The body is an `AclInfo`.  Source: `CreateAclRequestHeader`."""

    subject: str | None = None


class UpdateAcl(Request, code=RequestCode.AUTH_UPDATE_ACL, to=Role.BROKER):
    """Change a subject's access control list.  The body is an `AclInfo`.  Source: `UpdateAclRequestHeader`."""

    subject: str | None = None


class DeleteAcl(Request, code=RequestCode.AUTH_DELETE_ACL, to=Role.BROKER):
    """Delete a subject's list, or only what it says of one resource.  Source: `DeleteAclRequestHeader`."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAcl(Request, code=RequestCode.AUTH_GET_ACL, to=Role.BROKER):
    """A subject's access control list: an `AclInfo`, or no body when it has none.  Source: `GetAclRequestHeader`."""

    subject: str | None = None


class ListAcls(Request, code=RequestCode.AUTH_LIST_ACL, to=Role.BROKER):
    """The access control lists that match: a list of `AclInfo`.  Source: `ListAclsRequestHeader`."""

    subject_filter: str | None = None
    resource_filter: str | None = None
