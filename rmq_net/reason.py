"""Why a connection failed, in words: trio wraps the system's own reason, and its time-outs have no text.

The numbers of `ssl` and of name resolution are their own, so their texts are kept; of others the system's text is taken, for
trio puts the address before it, which the log line has already.
"""

from __future__ import annotations

import os

import trio


def reason(error: BaseException) -> str:
    """The text of what lies at the bottom of an error; several addresses of one host give several reasons."""
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(reason(inner) for inner in error.exceptions))
    if isinstance(error.__cause__, (OSError, BaseExceptionGroup)):
        return reason(error.__cause__)
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno) if type(error).__module__ == "builtins" else error.strerror or str(error)
    return str(error) or type(error).__name__
