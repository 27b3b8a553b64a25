"""What servers log goes through `rmq_net.log.Log`, which limits it by kind; kinds are few, for each is a text of the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.trees import SERVER_ROOMS, Module, listed, parsed, product

LOG = "rmq_net.log"
"""The one module that has loggers."""
NO_SERVER = {"rmq_wire.layout.table"}
"""Commands of their own: they print, and no server runs them."""
WRITES = {"print", "sys.stderr.write", "sys.stdout.write", "warnings.warn", "traceback.print_exc"}
"""What would reach standard error, or output, past the log; nobody may read there."""
SAYS = ("log.debug", "log.info", "log.warning", "log.error", "log.exception", "log.critical")


def loose_lines(module: Module) -> Iterator[str]:
    """Every line that nothing limits."""
    for called, line, says in module.calls:
        if called.endswith("getLogger") or called in WRITES:
            yield f"{module.at(line)}: {called}(…): a server's lines go through {LOG}"
        elif called.endswith(SAYS) and not says:
            yield f"{module.at(line)}: {called}(…): the text is computed, so that it is a kind of its own each time"


def test_no_line_that_nothing_limits() -> None:
    looked_at = [module for module in product() if module.room in SERVER_ROOMS and module.name not in {LOG, *NO_SERVER}]
    offences = [offence for module in looked_at for offence in loose_lines(module)]
    assert not offences, listed(offences)


@pytest.mark.parametrize(
    "line",
    [
        "log = logging.getLogger('rmq.x')",
        "from logging import getLogger\nlog = getLogger(__name__)",
        "print('here')",
        "sys.stderr.write('here')",
        "self._log.info(f'{name} came')",
        "call.env.log.warning('%s came' % name)",
        "env.log.error(text)",
    ],
)
def test_it_sees(line: str) -> None:
    assert list(loose_lines(parsed(line, "broker_impl/m.py")))


def test_it_lets_pass() -> None:
    assert not list(loose_lines(parsed("self._log.info('%s came', name)\nload(disk, env.log.warning)", "broker_impl/m.py")))
