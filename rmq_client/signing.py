"""Who asks, and that it is he: each request carries the access key and a signature over its fields and body.

HMAC-SHA1 over the values of all ext fields in the order of their names, then the body; in base64.  The secret never travels.
Source: `AclClientRPCHook`, `AclUtils`, `AclSigner`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from rmq_client.errors import CallerError
from rmq_wire.declare import Request

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server with access control knows a client by.  Java: SessionCredentials.

    Raises `CallerError` for a text that cannot be written in UTF-8.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        said = {"access key": self.access_key, "secret key": self.secret_key, "security token": self.security_token or ""}
        for name, text in said.items():
            try:
                text.encode()
            except UnicodeEncodeError:  # without its words, which have the text
                raise CallerError(f"the {name} cannot be written in UTF-8") from None

    def sign(self, request: Request, body: bytes | bytearray | memoryview = b"") -> dict[str, str]:
        """The ext fields that go beside the request's own."""
        added = {ACCESS_KEY: self.access_key}
        if self.security_token is not None:
            added[SECURITY_TOKEN] = self.security_token
        fields = request.encode() | added
        content = "".join(fields[name] for name in sorted(fields)).encode() + bytes(body)
        digest = hmac.new(self.secret_key.encode(), content, hashlib.sha1).digest()
        return {**added, SIGNATURE: base64.b64encode(digest).decode()}
