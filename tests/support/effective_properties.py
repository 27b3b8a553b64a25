"""The classes that list the properties a server obeys, made from its table of keys (`make pages`)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_impl.config_keys import Key

TYPES = {"String": "str", "int": "int", "long": "int", "boolean": "bool", "double": "float"}


def source(server: str, keys: Iterable[Key]) -> str:
    """The module's text.  server: `broker` or `name server`."""
    effective = [key for key in keys if key.status == "effective"]
    lines = [
        f'"""The properties that a {server} obeys, with their types, by the Java class that declares them.',
        "",
        "Made from `config_keys.json` by `make pages`; change that, not this.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "",
        "class EffectiveProperties:",
        '    """Typed attributes, set by `broker_impl.properties.Properties`: Java\'s names in snake case."""',
        "",
    ]
    for owner in dict.fromkeys(key.owner for key in effective):
        lines.append(f"    # {owner}")
        lines += sorted(f"    {key.attribute}: {_type(key)}" for key in effective if key.owner == owner)
    return "\n".join(lines) + "\n"


def _type(key: Key) -> str:
    """None where nothing is set and neither Java's class nor the machine has a value."""
    absent = key.default is None and (key.derived is None or key.derived.startswith("environment"))
    return TYPES[key.type] + " | None" * absent
