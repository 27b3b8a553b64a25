"""What must be installed besides this package before Spark can read a store, and what is said when it is not.

Asked by name, without importing anything: PySpark takes a tenth of a second, and pyarrow must not be loaded where Spark only
looks for formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

PACKAGES: Final = ("pyspark", "numpy", "pyarrow")
INSTALL: Final = "pip install -e '.[spark]'"
"""From the checkout: no index has this package."""


class MissingPackage(ImportError):
    """Something that the extra `[spark]` brings is not there."""


def need(packages: Sequence[str] = PACKAGES) -> None:
    """Raises `MissingPackage`, which names what is missing on this machine and how it is installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise MissingPackage(f"rocketmq_store needs {', '.join(missing)}: {INSTALL} in the checkout (on driver and executors)")
