"""The zone of a time that does not say its own: `spark.sql.session.timeZone`, in a command as in a notebook.

A command reads its times before Spark is started, which takes seconds; it asks for the zone that its session will have.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from rmq_columns.errors import BadOption
from rmq_columns.shown import Zone
from rmq_columns.times_and_sizes import zone_of

SESSION_ZONE: Final = "spark.sql.session.timeZone"
DEFAULT: Final = "UTC"
"""Of the sessions that are made here: the same words mean the same time on every machine."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set where `spark-submit` started us: the JVM is there already, and knows its master and settings."""


def session_zone(settings: Mapping[str, str] | None = None) -> Zone:
    """Of the session that there is, else of the one that will be made with these settings.  Raises `BadOption`."""
    name = _of_running() or (settings or {}).get(SESSION_ZONE) or _of_submitted() or DEFAULT
    try:
        return zone_of(name)
    except ValueError as reason:
        raise BadOption(f"{SESSION_ZONE}: {reason}") from reason


def _of_running() -> str | None:
    if "pyspark.sql" not in sys.modules:
        return None  # nobody can have made one
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    return None if spark is None else spark.conf.get(SESSION_ZONE)


def _of_submitted() -> str | None:
    if SUBMITTED not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM, from which SparkConf takes what was submitted
    return SparkConf().get(SESSION_ZONE)
