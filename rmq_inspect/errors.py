"""Why a look at a store cannot be had: one line for whoever asked, never a traceback."""

from __future__ import annotations

from rmq_columns.errors import CannotLook as CannotLook
