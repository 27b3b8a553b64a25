"""What the other side's bytes did wrong, and where.

Every reader of `rmq_wire` raises one of these and nothing else for bytes that it does not accept, so that a caller can tell
the peer's fault (`WireError`) from our own bug (anything else).  Nobody here decides how to react.
"""

from __future__ import annotations


class WireError(Exception):
    """Bytes from outside break the format they claim to have."""


class BadFrame(WireError):
    """The stream cannot be cut into frames any more: the only lawful reaction is to close the connection."""


class BadHeader(WireError):
    """A frame that can be told apart, whose header fields are missing or of the wrong type: answer code 1."""


class BadBody(WireError):
    """A body that is not what its command says: JSON that does not parse, lengths that do not add up."""


class BadRecord(WireError):
    """The bytes at this place of a store file are not the record that should be there."""


class BadReceipt(WireError):
    """Words that a client was never given as a receipt, or did not keep: what it says about a popped message cannot be read."""
