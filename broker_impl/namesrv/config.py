"""The name server's configuration: Java's keys with Java's defaults, as typed attributes, and how they change at run time.

The keys are data (`config_keys.json` beside this module; `broker_impl.config_keys.Key` has the meaning of a row, a test compares
names, types and defaults with what the jars say).  Shown and changed by codes 319 and 318 (Java: `NamesrvStartup`,
`Configuration`, `MixAll.properties2Object`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from broker_impl.config_keys import Key, Value

BLACK_LIST: Final = frozenset(("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"))
"""Keys that code 318 never changes, whatever `configBlackList` adds (Java: `DefaultRequestProcessor.initConfigBlackList`)."""
AT_START: Final = {"listenPort": "9876", "bindAddress": "127.0.0.1"}
"""What the server starts with where the class's default means nothing, or too much: Java listens on every address (0.0.0.0), we
do so only when told to, for whoever reaches the port may change everything."""

_CLIENT: Final = "NettyClientConfig"
"""Java reads these keys from the file too; they are listed only when the file had them."""


class ConfigError(ValueError):
    """A value that the server cannot start with.  The text names the key and says what is wrong."""


@cache
def keys() -> dict[str, Key]:
    """Every key by name; where two of Java's objects have one, the server's."""
    data = resources.files("broker_impl.namesrv").joinpath("config_keys.json").read_bytes()
    found: dict[str, Key] = {}
    for key in msgspec.json.decode(data, type=list[Key]):
        found.setdefault(key.name, key)
    return found


@cache
def start_only() -> frozenset[str]:
    """Keys that no request changes."""
    return frozenset(name for name, key in keys().items() if key.start_only)


@cache
def shown_keys() -> tuple[Key, ...]:
    """Those that answer 319 always lists."""
    return tuple(key for key in keys().values() if key.owner != _CLIENT)


class NamesrvConfig:
    """The values.  Attributes are the keys in snake case; those declared here have an effect.

    `properties`: what the configuration file and the command line say, by Java's names.  `config_file`: where the file is; it is
    what code 318 writes.  Raises `ConfigError`.
    """

    bind_address: str
    listen_port: int
    server_channel_max_idle_time_seconds: int
    config_black_list: str
    config_store_path: str
    kv_config_path: str
    delete_topic_with_broker_registration: bool
    enable_all_topic_list: bool
    enable_topic_list: bool
    need_wait_for_service: bool
    notify_min_broker_id_changed: bool
    order_message_enable: bool
    return_order_topic_config_to_broker: bool
    scan_not_active_broker_interval: int
    support_acting_master: bool
    wait_seconds_for_service: int

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        user_home: str | None = None,
        rocketmq_home: str | None = None,
        config_file: str | None = None,
    ) -> None:
        home = os.path.join(user_home or os.path.expanduser("~"), "namesrv")
        self._derived = {
            "configStorePath": config_file or os.path.join(home, "namesrv.properties"),
            "kvConfigPath": os.path.join(home, "kvConfig.json"),
            "rocketmqHome": rocketmq_home,
        }
        self._extra: dict[str, str] = {}
        """What the file said beside the shown keys: kept, so that writing the file loses nothing."""
        self.unknown: list[str] = []
        """Keys of the file that RocketMQ does not know."""
        for key in shown_keys():
            setattr(self, key.attribute, self._default(key))
        for name, text in (properties or {}).items():
            known = keys().get(name)
            if known is None:
                self.unknown.append(name)
            if known is None or known.owner == _CLIENT:
                self._extra[name] = text
            elif text.strip() or known.type != "String":
                setattr(self, known.attribute, read(known, text))
        if config_file is not None:
            self.config_store_path = config_file
        self.config_store_path = os.path.abspath(self.config_store_path)
        self.kv_config_path = os.path.abspath(self.kv_config_path)

    def without_effect(self) -> list[tuple[str, str]]:
        """Keys that were set to something else than their default and mean nothing here, each with the reason."""
        changed = (key for key in keys().values() if key.status == "accepted" and self._differs(key))
        return [(key.name, key.why or "") for key in changed]

    def black_list(self) -> frozenset[str]:
        """Keys that code 318 must not change: the reference's, those that count at the start only, and what the operator added.

        *Differs*: Java lets anybody widen `bindAddress` for the next start.
        """
        return BLACK_LIST | start_only() | frozenset(self.config_black_list.split(";"))

    def values(self) -> dict[str, str]:
        """Every key that has a value, as text: answer 319 and the file."""
        found = dict(self._extra)
        for key in shown_keys():
            value = getattr(self, key.attribute)
            if value is not None:
                found[key.name] = java_text(value)
        return found

    def update(self, properties: Mapping[str, str]) -> list[str]:
        """Take new values of keys that are there; others are left alone.  Returns a line for each.

        As in Java a text that is not of the key's type changes nothing.  Raises `ConfigError`, and changes nothing, when a value
        would keep the server from starting.
        """
        for name, text in properties.items():
            key = keys().get(name)
            if key is not None and key.status == "refused":
                read(key, text)
        said = []
        for name, text in properties.items():
            key = keys().get(name)
            if key is None or key.owner == _CLIENT:
                if name in self._extra:
                    self._extra[name] = text
                    said.append(f"{name} is now {text}")
                continue
            try:
                setattr(self, key.attribute, read(key, text))
                said.append(f"{name} is now {text}" + (", which counts from the next start" if key.next_start else ""))
            except ConfigError as why:
                said.append(f"not taken: {why}")
        return said

    def way_back(self) -> Callable[[], None]:
        """What makes all values again what they are now."""
        extra, now = self._extra.copy(), [(key.attribute, getattr(self, key.attribute)) for key in shown_keys()]

        def restore() -> None:
            self._extra = extra
            for name, value in now:
                setattr(self, name, value)

        return restore

    def _differs(self, key: Key) -> bool:
        if key.owner == _CLIENT:
            return key.name in self._extra
        return bool(getattr(self, key.attribute) != self._default(key))

    def _default(self, key: Key) -> Value | None:
        if key.derived is not None:
            return self._derived[key.name]
        text = AT_START.get(key.name, key.default)
        return None if text is None else key.read(text)


def read(key: Key, text: str) -> Value:
    """A key's value out of text.  Raises `ConfigError`."""
    try:
        value = key.read(text)
    except ValueError as expected:
        raise ConfigError(f"{key.name}={text[:64]}: {expected} is expected") from None
    if key.allowed is not None and java_text(value) not in key.allowed:
        raise ConfigError(f"{key.name}={text[:64]}: {key.why}")
    return value


def java_text(value: Value) -> str:
    """As `String.valueOf`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
