"""Java's enumerations in bodies: texts, with their names in the order of their ordinals.

A name that Java does not know never gets past the typed decoder; `lenience` then reads it as Java does.
"""

from __future__ import annotations

from typing import Annotated

import msgspec


def names_of(*names: str) -> msgspec.Meta:
    """Marks a text as an enumeration with these names, the first with ordinal 0."""
    return msgspec.Meta(pattern=f"^(?:{'|'.join(names)})$", extra={"names": names})


ConsumeType = Annotated[str, names_of("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")]
"""How a consumer gets its messages: it pulls, the client library pulls for it, the broker hands them out."""
MessageModel = Annotated[str, names_of("BROADCASTING", "CLUSTERING", "LITE_SELECTIVE")]
"""Whether each member of a group gets every message, or each message goes to one member."""
ConsumeFromWhere = Annotated[
    str,
    names_of(
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
]
"""Where a group without progress begins."""
TopicFilterType = Annotated[str, names_of("SINGLE_TAG", "MULTI_TAG")]
GroupRetryPolicyType = Annotated[str, names_of("EXPONENTIAL", "CUSTOMIZED")]
MessageRequestMode = Annotated[str, names_of("PULL", "POP")]
CMResult = Annotated[str, names_of("CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL")]
"""How a message went that a consumer was asked to consume."""
