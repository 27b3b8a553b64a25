"""Why a look at a store cannot be had: one line for whoever asked, never a traceback."""

from __future__ import annotations


class CannotLook(Exception):
    """The directory or file cannot be read as asked; the text says what is wrong and what to do.  Exit status 2."""
