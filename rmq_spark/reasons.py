"""What went wrong in Spark, in one line: its messages hold Python's tracebacks of workers, Java's stacks, or both.

An error of ours (a store's bytes, an option, a package) is reported as it was raised.  Of the rest the innermost reason is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rmq_columns.errors import BadOption, StoreError
from rmq_spark.needs import MissingPackage

_CLASSES: Final = (StoreError, BadOption, MissingPackage)
_OURS: Final = re.compile(
    r"^(?:rmq_\w+\.(?:\w+\.)*)?"
    r"(?:Malformed|CannotRead|FileGone|SeamMismatch|StoreError|BadOption|CannotLook|CannotExport|CannotWrite|MissingPackage|NotPermitted)"
    r": (.+)$",
    re.MULTILINE,
)
_PYTHON: Final = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_TASK: Final = re.compile(r"most recent failure: Lost task .*?\): (?:[\w.$]+\.)?(\w+(?:: .*)?)")
_CAUSE: Final = re.compile(r"^(?:Caused by|): (?:[\w.$]+\.)?(\w+(?:: .*)?)$", re.MULTILINE)
_OF_THE_MACHINE: Final = re.compile(r"OSError|PermissionError|FileNotFoundError|MemoryError|pyarrow\.")
_NOISE: Final = re.compile(r"^\[[A-Z_.]+\] |\s*SQLSTATE: \w+\s*$")
_BESIDE: Final = ("\tat ", "Error: Could not create", "Error: A fatal", "Error occurred during init")
NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
"""PySpark's word for a JVM that ended at once."""
GONE: Final = frozenset(("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "EOFError"))
"""What is raised when the JVM is no more."""
NO_ANSWER: Final = "Py4JError"
"""A call failed and no Java exception says why."""


def why_not_started(said: Sequence[str]) -> str:
    """What a JVM that ended before it could be talked to printed: the line that says why."""
    reasons = [line for line in said if not line.startswith(_BESIDE)]
    if any("UnsupportedClassVersionError" in line for line in reasons):
        return "Spark needs a JDK, 17 or later: set JAVA_HOME"
    why = (
        re.sub(r"^(Exception in thread \S+ )?([\w.$]+(Exception|Error): )?", "", reasons[0].strip())
        if reasons
        else "no reason given"
    )
    return f"Spark did not start: {why}"


def is_of_spark(error: BaseException) -> bool:
    """Raised by PySpark or by its way to the JVM, and no defect of whoever called."""
    homes = {one.__module__.partition(".")[0] for one in type(error).__mro__}
    return bool(homes & {"pyspark", "py4j"}) or type(error).__name__ in GONE


def is_ours(error: BaseException) -> bool:
    """What our code said of a store, an option or a disk, also within a task: it will say so again."""
    return isinstance(error, _CLASSES) or bool(_OURS.search(str(error)))


def reason_of(error: BaseException) -> str:
    """One line."""
    if isinstance(error, _CLASSES):
        return str(error)
    text = str(error).strip()
    if ours := _OURS.findall(text):
        return _line(ours[-1])
    if python := _PYTHON.findall(text):
        return f"a task failed: {_line(python[-1])}"
    if task := _TASK.search(text):
        return f"a task failed: {_line(task[1])}"
    if cause := _CAUSE.findall(text):
        return f"Spark: {_line(cause[-1])}"
    return f"Spark: {_line(text.partition(chr(10))[0]) or type(error).__name__}"


def is_defect(error: BaseException) -> bool:
    """Of our code in a worker: its traceback is worth more than its last line."""
    text = str(error)
    found = _PYTHON.findall(text)
    return bool(found) and not _OURS.search(text) and not _OF_THE_MACHINE.match(found[-1])


def _line(text: str) -> str:
    return _NOISE.sub("", _NOISE.sub("", text.strip()))
