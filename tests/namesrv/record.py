"""Plays the scenario against the real 5.5.0 name server and writes what it said to `java_answers.json`.

python -m tests.namesrv.record
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.namesrv.scenario import play
from tests.support.exchange import Session
from tests.support.reference import JavaNameServer

ANSWERS = Path(__file__).parent / "java_answers.json"


def ask_java(directory: Path) -> dict[str, dict[str, Any]]:
    """The scenario's answers of a fresh Java name server."""
    with JavaNameServer(directory) as server:
        session = Session(server.address)
        try:
            return play(session)
        finally:
            session.end()


def recorded() -> dict[str, dict[str, Any]]:
    """What stands in the file."""
    answers: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return answers


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        answers = ask_java(Path(scratch))
    lines = (
        f"{json.dumps(label, ensure_ascii=False)}: {json.dumps(answer, ensure_ascii=False)}" for label, answer in answers.items()
    )
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(answers)} answers of Java 5.5.0 written to {ANSWERS}")


if __name__ == "__main__":
    main()
