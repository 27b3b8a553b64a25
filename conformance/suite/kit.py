"""What a case is written with: its declaration, the trial, the link, the codes."""

from __future__ import annotations

from conformance.suite.case import Level, Need, case
from conformance.suite.link import Answer, Form, Link, NoAnswer
from conformance.suite.trial import MAKES_TOPICS, READ_WRITE, Trial, properties_of, units
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode

MUST, SHOULD, INFO, QUIRK = Level.MUST, Level.SHOULD, Level.INFO, Level.QUIRK

__all__ = [
    "INFO",
    "MAKES_TOPICS",
    "MUST",
    "QUIRK",
    "READ_WRITE",
    "SHOULD",
    "Answer",
    "Code",
    "Form",
    "Level",
    "Link",
    "Need",
    "NoAnswer",
    "ResponseCode",
    "Trial",
    "case",
    "properties_of",
    "units",
]
