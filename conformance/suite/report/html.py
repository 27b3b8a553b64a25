"""Runs as one HTML file that needs nothing else: the matrix of cases x subjects with filters, and behind each cell its evidence.

The head and an overview are plain HTML, made here.  Cases and evidence are JSON, deflated, in base64; the page's script inflates
what is looked at and puts it in as text, never as HTML.  What did not pass keeps all its evidence; frames of passed cases are
left out from behind until the file is small enough to be sent around, and the page says so.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from conformance.suite.report.specification import introductions
from conformance.suite.report.specification_rules import anchor_of
from conformance.suite.report.text import matrix_lines
from conformance.suite.results import ERROR, FAILED, PASSED, CaseResult, FrameRecord, Run, rows, suite_version
from rmq_wire.codes import RequestCode

PAGE: Final = Path(__file__).with_name("page")
ROOT: Final = Path(__file__).resolve().parents[3]
EVIDENCE_BYTES_MAX: Final = 800 * 1024
"""Of all evidence as it stands in the file; when it is more, frames of passed cases are left out."""
FRAMES_KEPT: Final = (1_000, 16, 8, 4, 2, 0)
"""Frames of a passed case: the first of these that makes the page small enough."""
_KINDS: Final = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "expected": ("✗", "failed as expected"),
    "surprise": ("✓!", "passed, though expected to fail"),
    "error": ("⚠", "errors of the suite"),
    "skipped": ("–", "skipped"),
    "not-run": ("○", "not run"),
}
"""In the order of the bars.  The script has the same."""
_FACTS: Final = ("image", "image id", "rocketmq.image", "java", "commit")
"""Of `TargetInfo.details`, those that are shown at first sight."""


def write_html(results: list[Run], path: Path) -> None:
    """Write the runs to a file that needs nothing else; its directory is made.  Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results, docs=_way_to_docs(path)), encoding="utf-8", errors="backslashreplace")


def page(results: Sequence[Run], *, docs: str = "") -> str:
    """The document.  docs: relative way to the directory that has `docs/`; empty: places in it are named, not linked."""
    packed, kept = _packed(results)
    labels = ", ".join(run.target.label for run in results)
    texts = {
        "title": escape(labels),
        "summary": escape(_summary(results)),
        "subjects": "\n".join(map(_card, results)),
        "overview": _overview(results),
        "foot": escape(_foot(kept)),
        "index": _deflated(_index(results, docs)),
        "style": _source("style.css"),
        "script": _source("script.js"),
        "evidence": "\n".join(
            f'<script type="text/plain" id="evidence-{number}">{text}</script>' for number, text in enumerate(packed)
        ),
    }
    head, *parts = _source("page.html").split("{{")
    return head + "".join(texts[name] + rest for name, rest in (part.split("}}", 1) for part in parts))


def _source(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8").strip()


def kind(case: CaseResult) -> str:
    """Of `_KINDS`: the outcome, and whether it was expected."""
    if case.outcome == FAILED:
        return "expected" if case.as_expected else "failed"
    if case.outcome == PASSED:
        return "passed" if case.as_expected else "surprise"
    return case.outcome.replace(" ", "-")


# The head


def _summary(results: Sequence[Run]) -> str:
    cases = len({case.id for run in results for case in run.cases})
    days = sorted({run.started[:10] for run in results})
    day = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else ""
    subjects = f"{len(results)} subject{'s' if len(results) != 1 else ''}"
    return f"{cases} cases, {subjects}. {day}. Suite of version {suite_version()}."


def _card(run: Run) -> str:
    target = run.target
    found = [kind(case) for case in run.cases]
    counts = {name: found.count(name) for name in _KINDS if name in found}
    bar = "".join(f'<i class="{name}" style="flex:{count}"></i>' for name, count in counts.items())
    items = "".join(
        f'<li class="{name}">{_KINDS[name][0]} {count} {escape(_KINDS[name][1])}</li>' for name, count in counts.items()
    )
    tone, verdict = _verdict(run)
    details = target.details
    facts = [
        f"held to Apache RocketMQ {target.version}" if target.version else "held to the newest Apache RocketMQ",
        *(f"{name} {details[name]}" for name in _FACTS if name in details),
        f"{run.seconds:.1f} s",
        f"seed {run.seed}",
    ]
    more = {
        "started": run.started,
        "cases at once": str(run.jobs),
        "names begin with": run.mark,
        "kind": target.kind,
        "name server": target.namesrv,
        "broker": target.broker,
        "broker name": target.broker_name,
        "cluster": target.cluster,
        "store": "readable" if target.store_readable else "not readable",
        **details,
        **target.config,
    }
    return (
        f'<div class="card" data-subject="{escape(target.label)}"><h2>{escape(target.label)}</h2>'
        f'<p class="verdict {tone}">{escape(verdict)}</p><div class="bar" aria-hidden="true">{bar}</div>'
        f'<ul class="counts">{items}</ul>{_known(run)}<p class="facts">{escape(" · ".join(facts))}</p>'
        f"<details><summary>addresses, commands, configuration</summary>{_pairs(more)}</details></div>"
    )


def _known(run: Run) -> str:
    """What failed as expected, by cause."""
    if not (known := run.known):
        return ""
    rows = "".join(f"<tr><td>{count}</td><td>{escape(cause)}</td></tr>" for cause, count in known.items())
    text = escape(run.expectation_line)
    return (
        f'<details class="known" open><summary>{text}</summary><table><caption>known, by cause</caption>{rows}</table></details>'
    )


def _verdict(run: Run) -> tuple[str, str]:
    """How it is coloured, and what it says."""
    if run.ended:
        return "bad", f"Stopped early: {run.ended}"
    surprises = len(run.surprises)
    if surprises:
        return "bad", f"{surprises} case{'s' if surprises != 1 else ''} came otherwise than expected"
    must = [case for case in run.cases if case.level == "must" and case.outcome in (PASSED, FAILED, ERROR)]
    passed = sum(case.outcome == PASSED for case in must)
    if passed < len(must):
        return "soft", f"As expected: {passed} of {len(must)} MUST cases pass"
    return "good", f"All {passed} MUST cases pass"


def _pairs(pairs: Mapping[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs.items()) + "</dl>"


def _overview(results: Sequence[Run]) -> str:
    """Capabilities x subjects, for who reads without the script; it puts the matrix in its place."""
    return f"<tbody><tr><td><pre>{escape(chr(10).join(matrix_lines(results)))}</pre></td></tr></tbody>"


def _foot(kept: int) -> str:
    text = "Each cell opens its evidence: checks, notes and the frames of both directions, decoded. "
    if kept < FRAMES_KEPT[0]:
        frames = f"the first {kept} frames" if kept else "no frames"
        text += f"Of passed cases {frames} are kept here; the JSON outcome has the others. "
    return text + "Long bodies and fields are cut. This file loads nothing from anywhere."


# The cases and their evidence


def _index(results: Sequence[Run], docs: str) -> dict[str, Any]:
    abouts = _abouts()
    cases = []
    for id, by_subject in rows(results).items():
        first = next(iter(by_subject.values()))
        cells = [_cell(by_subject.get(run.target.label)) for run in results]
        cases.append([id, first.level, first.title, first.rests_on, first.codes, abouts.get(id, ""), anchor_of(id), cells])
    codes = {code for case in cases for code in case[4]}
    return {
        "labels": [run.target.label for run in results],
        "docs": docs,
        "about": {name: _first_sentence(texts[0]) for name, texts in introductions().items() if texts},
        "codes": {str(int(code)): code.name for code in RequestCode if int(code) in codes},
        "rows": {anchor_of(f"grid.{_dashed(code.name)}.x"): f"{code.name} ({int(code)})" for code in RequestCode},
        "ranks": _ranks(results),
        "cases": cases,
    }


def _ranks(results: Sequence[Run]) -> dict[str, int]:
    """Of each group, and of each within one: 0 with what came otherwise than expected, 1 with known failures, 2 all passed."""
    ranks: dict[str, int] = {}
    for case in (case for run in results for case in run.cases):
        rank = 0 if not case.as_expected else 1 if case.outcome == FAILED else 2
        for group in (case.capability, ".".join(case.id.split(".")[:2])):
            ranks[group] = min(rank, ranks.get(group, 2))
    return ranks


def _abouts() -> dict[str, str]:
    """What the suite that is installed says of its cases; a merged file may have others."""
    from conformance.suite.case import load

    return {id: case.about for id, case in load({}).items()}


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].replace("`", "").rstrip(".") + "."


def _dashed(name: str) -> str:
    return name.lower().replace("_", "-")


def _cell(case: CaseResult | None) -> list[Any] | None:
    return None if case is None else [case.outcome, case.seconds, case.why, case.expected, case.reason, case.see]


def _packed(results: Sequence[Run]) -> tuple[list[str], int]:
    """Each run's evidence, deflated; how many frames of a passed case are in it."""
    for kept in FRAMES_KEPT:
        packed: list[str] = []
        for run in results:
            packed.append(_deflated({case.id: _evidence(case, kept) for case in run.cases}))
            if sum(map(len, packed)) > EVIDENCE_BYTES_MAX and kept:
                break
        else:
            return packed, kept
    raise AssertionError("with no frames at all every size is taken")


def _evidence(case: CaseResult, kept: int) -> dict[str, Any]:
    """Short names, and nothing that is empty."""
    frames = case.frames[:kept] if case.outcome == PASSED and case.as_expected else case.frames
    found = {
        "c": [[check.what, int(check.holds), check.expected, check.seen] for check in case.checks],
        "n": case.notes,
        "f": [_frame(frame) for frame in frames],
        "left": len(case.frames) - len(frames),
        "t": case.trace,
    }
    return {name: value for name, value in found.items() if value}


def _frame(frame: FrameRecord) -> list[Any]:
    return [
        frame.connection,
        int(frame.to_server),
        frame.at_s,
        frame.size,
        frame.kind,
        frame.code,
        frame.code_name,
        frame.opaque,
        frame.form,
        frame.language,
        frame.version,
        frame.remark,
        frame.fields,
        frame.body,
        int(frame.body_hex),
        frame.body_bytes,
        frame.note,
    ]


def _deflated(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 9)).decode()


def _way_to_docs(path: Path) -> str:
    """From the page to the checkout; empty when the suite is not run from one, or the page lies elsewhere."""
    place = path.resolve().parent
    if not (ROOT / "docs" / "conformance.md").is_file() or not place.is_relative_to(ROOT):
        return ""
    return Path(os.path.relpath(ROOT, place)).as_posix()
