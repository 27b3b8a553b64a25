"""Outcomes of runs that never were, for the reports."""

from __future__ import annotations

from typing import Any

from conformance.suite.results import CaseResult, CheckResult, FrameRecord, Run, TargetInfo

EVIL = "<script>alert(1)</script>{{index}}</script>&\x01"
CHECKS = [CheckResult("first", True, "1", "1"), CheckResult("the code", False, "0", EVIL)]


def case(id: str, outcome: str = "passed", level: str = "must", **more: Any) -> CaseResult:
    return CaseResult(id, level, f"{id} holds", "Nobody.knows", outcome, **more)


def a_run(*cases: CaseResult, label: str = "ours", started: str = "2026-01-01T00:00:00Z", ended: str = "") -> Run:
    target = TargetInfo(label, "ours", "5.5.0", "127.0.0.1:1", "127.0.0.1:2", "broker-a", "C", True, {"commit": "abc"}, {})
    return Run(target, started, 1.5, 7, 16, "m1", ended, list(cases))


def failed(id: str, **more: Any) -> CaseResult:
    return case(id, "failed", why="the code", checks=CHECKS, frames=[question(), answer()], codes=[11], **more)


def question(code: int = 11, name: str = "PULL_MESSAGE", **more: Any) -> FrameRecord:
    return FrameRecord(0, True, 0.01, 90, "request", code, name, 5, "JSON", "JAVA", 513, fields={"topic": EVIL}, **more)


def answer(**more: Any) -> FrameRecord:
    return FrameRecord(
        0, False, 0.0135, 70, "response", 17, "TOPIC_NOT_EXIST", 5, "JSON", "JAVA", 513, "no such topic", {}, **more
    )


OURS = a_run(
    failed("pull.first"),
    failed("pull.expected", expected="failed", reason="not built yet", see="docs/differences.md#safety"),
    case("pull.fine"),
    case("send.fine", level="should"),
    case("send.surprise", expected="failed", reason="thought so"),
    failed("send.info", level="info"),
    case("send.skipped", "skipped", why="needs: x"),
    case("send.broken", "error", why="KeyError", trace="Traceback (most recent call last)"),
)
JAVA = a_run(case("pull.first"), case("pull.fine"), case("send.fine", level="should"), label="java-5.5.0")
