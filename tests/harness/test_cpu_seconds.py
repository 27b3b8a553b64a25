"""The plugin that says which tests take the most CPU: what a child burns counts, while it lives and after."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cpu_seconds import spent

SECONDS = 0.3
BURN = f"""
import os
while os.times().user < {SECONDS}: pass
print("burnt", flush=True)
input()
"""


def test_a_child_counts_while_it_lives_and_after() -> None:
    before = spent()
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        if sys.platform == "linux":
            assert spent() - before >= SECONDS * 0.9
        child.communicate(b"\n")
    assert spent() - before >= SECONDS * 0.9
