"""What a user can mend."""

from __future__ import annotations

from rmq_columns.errors import DENIED


class Complaint(Exception):
    """One line that says what is wrong and what to do; the command ends with `status`."""

    status = 1


class Denied(Complaint):
    """A file or directory that this user may not read or write: nothing is known of what is in it."""

    status = 2

    def __init__(self, path: object) -> None:
        super().__init__(f"{DENIED}: {path}")


class TooFewDescriptors(Complaint):
    """This user's processes may open less than a server needs."""

    status = 2

    def __init__(self, limit: int, least: int) -> None:
        super().__init__(f"this process may open {limit} files and connections, it needs {least}: raise the limit (ulimit -n)")


class Unread(Complaint):
    """Nobody reads what is printed any more: there is nothing to complain of, and nobody to read it."""

    status = 128 + 13
    """As a shell reports the end by SIGPIPE."""
