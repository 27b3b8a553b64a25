"""The outcome as a page: what is in the file, and what a browser makes of it."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import subprocess
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance.suite.report import html
from conformance.suite.report.html import kind, page, write_html
from conformance.suite.results import FrameRecord, Run
from tests.conformance.runs import EVIL, JAVA, OURS, a_run, case, failed, question

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BROWSER_S = 120.0
"""How long it may take on a busy machine.  Nothing waits so long."""


def inside(document: str, id: str) -> Any:
    """What the page's script inflates."""
    found = re.search(f'<script type="text/plain" id="{id}">([^<]*)</script>', document)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def test_everything_is_in_the_file() -> None:
    document = page([OURS, JAVA])
    index = inside(document, "index")
    assert index["labels"] == ["ours", "java-5.5.0"]
    assert [case[0] for case in index["cases"]] == sorted(case.id for case in OURS.cases)
    assert index["codes"] == {"11": "PULL_MESSAGE"}
    [first] = [case for case in index["cases"] if case[0] == "pull.first"]
    assert [cell[0] for cell in first[-1]] == ["failed", "passed"]
    [alone] = [case for case in index["cases"] if case[0] == "send.info"]
    assert alone[-1][1] is None, "Java was not asked"
    evidence = inside(document, "evidence-0")["pull.first"]
    assert evidence["c"] == [["first", 1, "1", "1"], ["the code", 0, "0", EVIL]]
    assert [frame[6] for frame in evidence["f"]] == ["PULL_MESSAGE", "TOPIC_NOT_EXIST"]
    assert inside(document, "evidence-0")["send.broken"]["t"].startswith("Traceback")


def test_the_head_shows_whom_and_how() -> None:
    document = page([OURS])
    for part in (
        "ours",
        "held to Apache RocketMQ 5.5.0",
        "commit abc",
        "seed 7",
        "1.5 s",
        "127.0.0.1:2",
        "3 cases came otherwise",
    ):
        assert part in document
    assert "All 2 MUST cases pass" in page([JAVA])
    assert "As expected: 0 of 1 MUST cases pass" in page([a_run(failed("a.b", expected="failed"))])
    assert "Stopped early: it died" in page([a_run(case("a.b", "not run"), ended="it died")])


def test_what_is_known_stands_on_top_by_cause() -> None:
    known = [failed(f"pop.{number}", expected="failed", reason="no POP <yet>") for number in range(3)]
    document = page([a_run(case("send.good"), *known)])
    table = document[document.index('class="known"') : document.index("<form")]
    assert "as expected: 1 passed, 3 known, 0 skipped, 0 unexpected" in table
    assert "<tr><td>3</td><td>no POP &lt;yet&gt;</td></tr>" in table
    assert 'class="known"' not in page([a_run(case("send.good"))])


def test_groups_that_fail_stand_first() -> None:
    cases = [
        case("admin.good"),
        case("grid.a.good"),
        failed("grid.b.known", expected="failed", reason="x"),
        failed("grid.c.bad"),
        failed("pop.known", expected="failed", reason="x"),
        case("pull.good"),
        failed("send.bad"),
        case("send.good"),
    ]
    ranks = inside(page([a_run(*cases)]), "index")["ranks"]
    found = {rank: {name for name, one in ranks.items() if one == rank} for rank in (0, 1, 2)}
    assert found[0] == {"grid", "grid.c", "send", "send.bad"}
    assert found[1] == {"grid.b", "pop", "pop.known"}
    assert found[2] == {"admin", "admin.good", "grid.a", "pull", "pull.good", "send.good"}


def test_nothing_that_a_server_said_is_read_as_html() -> None:
    run = a_run(failed("a.b", reason=EVIL, expected="failed"), label=EVIL)
    run.target.details = run.target.config = {EVIL: EVIL}
    document = page([run])
    assert "<script>alert" not in document
    assert inside(document, "evidence-0")["a.b"]["f"][0][12] == {"topic": EVIL}


def test_no_address_of_the_network() -> None:
    document = page([OURS, JAVA])
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", document) == []
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:|#)""", document)
    assert "default-src 'none'" in document


def test_kinds() -> None:
    assert [kind(case) for case in OURS.cases] == [
        "failed",
        "expected",
        "passed",
        "passed",
        "surprise",
        "expected",
        "skipped",
        "error",
    ]


def noise(count: int, seed: int = 0) -> list[FrameRecord]:
    """Frames that no packing makes small."""
    made = random.Random(seed)
    return [question(body=made.randbytes(200).hex()) for _ in range(count)]


def test_only_passed_cases_are_cut_when_it_grows_too_big(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, bad = case("a.passed", frames=noise(40, 1)), case("a.failed", "failed", why="x", frames=noise(40))
    whole = page([a_run(passed, bad)])
    assert len(inside(whole, "evidence-0")["a.passed"]["f"]) == 40
    assert "are kept here" not in whole
    monkeypatch.setattr(html, "EVIDENCE_BYTES_MAX", 16_000)
    cut = page([a_run(passed, bad)])
    found = inside(cut, "evidence-0")
    assert len(found["a.failed"]["f"]) == 40
    assert len(found["a.passed"]["f"]) == 8
    assert found["a.passed"]["left"] == 32
    assert "Of passed cases the first 8 frames are kept here" in cut


def test_links_to_the_documents_only_from_the_checkout(tmp_path: Path) -> None:
    write_html([OURS], tmp_path / "deep" / "r.html")
    assert inside((tmp_path / "deep" / "r.html").read_text(), "index")["docs"] == ""
    assert html._way_to_docs(html.ROOT / "build" / "conform" / "index.html") == "../.."


# In a browser


def browse(file: Path, fragment: str, *options: str) -> tuple[str, str]:
    """The document as the script has made it, and what the browser said."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--v=0",
            f"--user-data-dir={file.parent}/browser",
            "--virtual-time-budget=5000",
            *options,
            "--dump-dom",
            f"file://{file}#{fragment}",
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_S,
        check=False,
    )
    if done.returncode or "</html>" not in done.stdout:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> partial[str]:
    """Shows a page of two runs; fails when the browser's console says anything."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_html([OURS, JAVA], file)

    def show(fragment: str) -> str:
        text, console = browse(file, fragment)
        assert console == ""
        assert 'data-ready="1"' in text
        return text

    return partial(show)


def ids(document: str) -> set[str]:
    return set(re.findall(r'<tr class="case[^"]*" data-id="([^"]+)"', document))


def test_the_page_opens_folded(shown: partial[str]) -> None:
    document = shown("")
    assert ids(document) == set()
    assert re.findall(r'data-group="([^"]+)"', document) == ["pull", "send"]
    assert "8 cases" in document
    assert ids(shown("unfold=1")) == {case.id for case in OURS.cases}


FILTERS = {
    "outcome=failed&text=pull": {"pull.first"},
    "outcome=failed,expected": {"pull.first", "pull.expected", "send.info"},
    "outcome=surprise": {"send.surprise"},
    "level=should": {"send.fine"},
    "capability=pull": {"pull.first", "pull.expected", "pull.fine"},
    "differs=1": {"pull.first"},
    "subject=java-5.5.0&outcome=passed": {"pull.first", "pull.fine", "send.fine"},
    "text=PULL_MESSAGE%20first": {"pull.first"},
    "text=nowhere": set(),
}
DRIVER = """<pre id="seen"></pre><script>
(async () => {
  const root = document.documentElement, seen = {};
  while (!root.dataset.ready) await new Promise((done) => setTimeout(done, 10));
  for (const fragment of FRAGMENTS) {
    const changed = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = fragment;
    await changed;
    seen[fragment] = [...document.querySelectorAll("tr.case")].map((row) => row.dataset.id);
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>"""
"""Goes from fragment to fragment, as a reader does with the buttons; one start of the browser for all."""


def test_filters(tmp_path: Path) -> None:
    driven = page([OURS, JAVA]).replace("</body>", DRIVER.replace("FRAGMENTS", json.dumps(list(FILTERS))) + "</body>")
    (tmp_path / "driven.html").write_text(driven)
    document, console = browse(tmp_path / "driven.html", "")
    assert console == ""
    seen = re.search('<pre id="seen">([^<]*)</pre>', document)
    assert seen
    found = json.loads(seen[1].replace("&amp;", "&"))
    assert {fragment: set(ids) for fragment, ids in found.items()} == FILTERS


def test_a_filter_in_the_address(shown: partial[str]) -> None:
    assert ids(shown("outcome=failed&text=pull")) == {"pull.first"}


def test_a_cell_shows_its_evidence(shown: partial[str]) -> None:
    document = shown("open=pull.first@ours,pull.expected@ours")
    for part in (
        "the code",
        "PULL_MESSAGE (11)",
        "TOPIC_NOT_EXIST (17)",
        "no such topic",
        "response after 3.5 ms",
        "opaque 5",
        "Expected to fail: not built yet",
        "docs/differences.md#safety",
        "docs/conformance.md#pull.first",
    ):
        assert part in document
    assert "&lt;script&gt;alert(1)" in document
    assert "&amp;‹01›" in document, "control characters are seen"
    assert "<script>alert" not in document


def test_the_browser_would_report_an_error(tmp_path: Path) -> None:
    """Else an empty console says nothing."""
    (tmp_path / "broken.html").write_text("<!DOCTYPE html><html><script>nobody()</script></html>")
    assert "nobody is not defined" in browse(tmp_path / "broken.html", "")[1]


def test_a_file_that_is_cut_says_so(tmp_path: Path) -> None:
    text = page([OURS])
    found = re.search('id="index">([^<]*)<', text)
    assert found
    (tmp_path / "cut.html").write_text(text.replace(found[1], found[1][:40]))
    assert "The cases cannot be shown" in browse(tmp_path / "cut.html", "")[0]


def big() -> list[Run]:
    """As large as the whole matrix: five subjects, a thousand cases."""
    cases = [case(f"grid.code-{number // 6}.cell-{number % 6}", frames=noise(4, number)) for number in range(1_000)]
    return [a_run(*cases, label=label) for label in ("ours", "java-5.5.0", "java-5.3.3", "java-4.9.7", "docker-5.5.0")]


def test_the_whole_matrix_is_a_megabyte() -> None:
    assert len(page(big()).encode()) <= 1 << 20
