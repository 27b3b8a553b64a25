"""What a user can mend."""

from __future__ import annotations


class Complaint(Exception):
    """One line that says what is wrong and what to do; the command ends with status 1."""
