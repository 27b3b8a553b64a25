"""What each kind of fault that the generator of stores plants looks like to the checks of a store."""

from __future__ import annotations

from typing import Final

SEEN_AS: Final = {
    "gap": {"log-sequence-gap", "queue-hole"},
    "index-missing": {"index-missing"},
    "index-wrong": {"index-wrong", "index-missing", "index-order"},
    "queue-missing": {"queue-unit-missing", "queue-hole"},
    "queue-wrong": {"queue-unit-wrong"},
    "queue-tags": {"queue-tags-code"},
    "corrupt-body": {"log-body-crc"},
    "corrupt-size": {"log-unit-broken", "queue-dangling"},
    "corrupt-magic": {"log-unit-broken", "queue-dangling"},
    "queue-offset": {"log-sequence-gap", "log-sequence-back", "queue-dangling"},
    "torn-tail": {"log-torn"},
}
"""Kind -> the findings that it is, one row of each at least."""
PERHAPS: Final = {"queue-wrong": {"queue-order"}}
"""What it is, too, where the message that is pointed at is of no other queue or far away."""
