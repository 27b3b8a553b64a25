"""What a job found: for a person, for a script, and as DataFrames to be written.  No Spark is needed to hold one."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from rmq_columns.shown import Zone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Cell = str | int | float | bool | None


class Unit(StrEnum):
    """How a number is shown; the JSON has it as it is."""

    COUNT = "count"
    PLACE = "place"
    """an offset, a queue id: shown as other commands take it"""
    BYTES = "bytes"
    MS = "ms"
    """a duration"""
    TIME = "time"
    """a point of time, ms since 1970"""
    RATIO = "ratio"
    TEXT = "text"


class Figure(NamedTuple):
    """One number of the summary.  name: as in JSON, camelCase as RocketMQ's own."""

    name: str
    label: str
    value: Cell
    unit: Unit = Unit.COUNT


class Column(NamedTuple):
    """Of a `Table`."""

    name: str
    unit: Unit = Unit.TEXT


@dataclass
class Table:
    """Rows that a person looks at: few, the worst first.  total: how many there are in all."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    total: int
    is_finding: bool = False
    """each row is something wrong"""

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return [column.name for column in self.columns]

    def bars(self, label: str, number: str) -> list[tuple[str, float]]:
        """Two of its columns, for a plot."""
        at, of = self.names.index(label), self.names.index(number)
        return [(str(row[at]), float(row[of] or 0)) for row in self.rows]


@dataclass
class Plot:
    """Numbers to be drawn.  Bars: a label and a number each; lines: points of one or more series over the same x."""

    title: str
    bars: list[tuple[str, float]] = field(default_factory=list)
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    x_unit: Unit = Unit.COUNT
    y_unit: Unit = Unit.COUNT
    step: float | None = None
    """of x from a point to the next, where one that is missing says that there was nothing"""


class Frames(UserDict[str, Any]):
    """DataFrames by name; one that is given as a function is made when it is asked for: to make one takes Spark 30 ms."""

    def __getitem__(self, name: str) -> DataFrame:
        found = self.data[name]
        if callable(found):
            found = self.data[name] = found()
        return found


@dataclass
class Outcome:
    """Of one job over one or more stores.  frames: name -> everything that was found, to be written with `--out`."""

    job: str
    verdict: str
    """one line: clean, or what is wrong"""
    is_clean: bool
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: MutableMapping[str, DataFrame] = field(default_factory=Frames)
    messages: int | None = None
    """how many were looked at; None: the job does not count them"""
    zone: Zone = None
    """in which times are shown; None: this machine's"""
    release: Callable[[], None] | None = None
    """lets go what the frames are made of, if that was computed already"""

    def close(self) -> None:
        """Spark keeps nothing of it any longer; a frame that is asked for now is computed anew."""
        if self.release is not None:
            self.release()

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "job": self.job,
            "clean": self.is_clean,
            "verdict": self.verdict,
            "figures": {one.name: one.value for one in self.figures},
            "tables": {
                one.name: {
                    "total": one.total,
                    "rows": [dict(zip(one.names, row, strict=True)) for row in one.rows],
                }
                for one in self.tables
            },
            "notes": self.notes,
        }
