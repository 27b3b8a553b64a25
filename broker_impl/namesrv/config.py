"""The configuration of a name server: what Java derives from the machine, and which of Java's keys it lists.

How properties are read, checked, changed and listed is `broker_impl.properties`; the keys are `config_keys.json` beside this
module.  Java: `NamesrvStartup`, `NamesrvConfig`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Final

from broker_impl.config_keys import Key, table
from broker_impl.namesrv.effective_properties import EffectiveProperties
from broker_impl.properties import Properties
from rmq_net.log import plain_text

AT_START: Final = {"listenPort": "9876", "bindAddress": "127.0.0.1"}
"""What the server starts with where the class's default means nothing, or too much: Java listens on every address (0.0.0.0), we
do so only when it is set, for whoever reaches the port may change everything."""

_CLIENT: Final = "NettyClientConfig"
"""Java reads these keys from the file too; they are listed only when the file had them."""


@cache
def keys() -> dict[str, Key]:
    """Every key by name; where two of Java's objects have one, the server's."""
    return table("broker_impl.namesrv")


@cache
def shown_keys() -> dict[str, Key]:
    """Those that answer 319 always lists."""
    return {name: key for name, key in keys().items() if key.owner != _CLIENT}


class NamesrvConfig(EffectiveProperties, Properties):
    """A name server's properties.

    `entries`: what the configuration file and the command line say, by Java's names.  `config_file`: where the file is; it is
    what code 318 writes.  Raises `BadConfig`.
    """

    BLACK_LIST = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")
    """Java: `DefaultRequestProcessor.initConfigBlackList`.  *Differs*: Java lets anybody widen `bindAddress` for the next start,
    here no key that counts at the start only is changed."""
    passes_over_bad_values = True

    def __init__(
        self,
        entries: Mapping[str, str] | None = None,
        *,
        user_home: str | None = None,
        rocketmq_home: str | None = None,
        config_file: str | None = None,
    ) -> None:
        self._home = os.path.join(user_home or os.path.expanduser("~"), "namesrv")
        self._rocketmq_home = rocketmq_home
        self._config_file = config_file
        given = {name: text for name, text in (entries or {}).items() if text.strip() or not _is_text(name)}
        super().__init__(shown_keys(), given)
        self.path = self.config_store_path

    def _derive(self) -> None:
        derived = {
            "configStorePath": os.path.join(self._home, "namesrv.properties"),
            "kvConfigPath": os.path.join(self._home, "kvConfig.json"),
            "rocketmqHome": self._rocketmq_home,
            **AT_START,
        }
        for name, value in derived.items():
            self._default(name, value)
        self._texts["configStorePath"] = os.path.abspath(self._config_file or self._texts["configStorePath"])
        self._texts["kvConfigPath"] = os.path.abspath(self._texts["kvConfigPath"])

    def _of_unknown(self, name: str, text: str) -> str:
        key = keys().get(name)
        if key is None:
            return super()._of_unknown(name, text)
        return f"property {name}={plain_text(text, 64)} has no effect: {key.why}"


def _is_text(name: str) -> bool:
    """An empty value of such a key stands for its default."""
    return name in shown_keys() and shown_keys()[name].type == "String"
