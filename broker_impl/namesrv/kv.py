"""Key-value configuration by namespace, kept in `kvConfig.json` in Java's form (Java: `KVConfigManager`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from broker_impl.engine.answers import Answer, Pause, Refusal
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, in_javas_order, joined, spelled
from broker_impl.whole_files import WholeFiles
from rmq_wire.bodies.body import FASTJSON, table_pieces
from rmq_wire.bodies.kv import KVConfig, KVTable
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import DeleteKVConfig, GetKVConfig, GetKVConfigResponse, GetKVListByNamespace, PutKVConfig

CHARACTERS_MAX: Final = 8 << 20
"""Of all names and values together: an answer with one namespace must still fit into a frame of 16 MiB."""
ENTRY_CHARACTERS: Final = 100
"""What a namespace or a key counts more than its text, for it costs so much memory: there is room for some 80,000."""


class KvTable:
    """Namespace -> key -> value."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, str]] = {}
        self._characters = 0

    def get(self, namespace: str, key: str) -> str | None:
        """The value, if there is one."""
        return self._namespaces.get(namespace, {}).get(key)

    def of(self, namespace: str) -> dict[str, str] | None:
        """A namespace's entries; None when nothing was ever put there."""
        return self._namespaces.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> Callable[[], None] | None:
        """Set a value; returns what takes that back.  None, and nothing happens, when the table is full."""
        entries = self._namespaces.get(namespace, {})
        old = entries.get(key)
        added = len(value) - len(old) if old is not None else _size(key, value)
        if namespace not in self._namespaces:
            added += _size(namespace)
        if self._characters + added > CHARACTERS_MAX:
            return None
        is_new = namespace not in self._namespaces
        self._characters += added
        self._namespaces.setdefault(namespace, {})[key] = value

        def undo() -> None:
            self._characters -= added
            if is_new:
                del self._namespaces[namespace]
            elif old is None:
                del self._namespaces[namespace][key]
            else:
                self._namespaces[namespace][key] = old

        return undo

    def delete(self, namespace: str, key: str) -> Callable[[], None]:
        """Remove a value; its namespace stays, empty at last.  Returns what takes that back."""
        old = self._namespaces.get(namespace, {}).pop(key, None)
        if old is None:
            return lambda: None
        size = _size(key, old)
        self._characters -= size

        def undo() -> None:
            self._characters += size
            self._namespaces[namespace][key] = old

        return undo

    def load(self, text: bytes) -> None:
        """Take what a file says.  Raises `BadBody`."""
        loaded = KVConfig.read(text).config_table
        for namespace, entries in loaded.items():
            self._namespaces[namespace] = dict(entries)
        self._characters = sum(
            _size(namespace) + sum(_size(key, value) for key, value in entries.items())
            for namespace, entries in self._namespaces.items()
        )

    def document(self) -> Slices[bytes]:
        """The file's text, its members in the order in which Java walks its hash maps.

        In slices: a change between two of them may be in it or not, and gets a document of its own.
        """
        return joined(self._document())

    def _document(self) -> Generator[bytes | Pause | None, None, None]:
        before = b'{"configTable":{'
        for namespace in (yield from in_javas_order(self._namespaces)):
            yield before + FASTJSON.key(namespace) + b":"
            order = yield from in_javas_order(self._namespaces[namespace])
            yield from table_pieces(self._now(namespace, order), FASTJSON)
            before = b","
        yield b"}}" if before == b"," else before + b"}}"

    def _now(self, namespace: str, order: list[str]) -> Iterator[tuple[str, bytes]]:
        """The entries in this order, as far as they are still there."""
        entries = self._namespaces[namespace]
        return ((key, FASTJSON.value(entries[key])) for key in order if key in entries)


def _size(*texts: str) -> int:
    return ENTRY_CHARACTERS + sum(map(len, texts))


class KeyValues(Capability):
    """The table as tools use it."""

    def __init__(self, kv: KvTable, files: WholeFiles, path: str) -> None:
        self.kv = kv
        self.files = files
        self.path = path

    @answers(PutKVConfig)
    def put(self, call: Call, asked: PutKVConfig) -> Answer:
        """Set a value and save the file."""
        self.files.check_room(self.path)
        undo = self.kv.put(asked.namespace, asked.key, asked.value)
        if undo is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the key-value table holds {CHARACTERS_MAX} characters at most")
        call.env.log.info("%s:%d set %s in %s", *call.peer.remote, asked.key, asked.namespace)
        return self.files.write(call, self.path, self.kv.document, undo)

    @answers(DeleteKVConfig)
    def delete(self, call: Call, asked: DeleteKVConfig) -> Answer:
        """Remove a value and save the file."""
        self.files.check_room(self.path)
        undo = self.kv.delete(asked.namespace, asked.key)
        call.env.log.info("%s:%d deleted %s of %s", *call.peer.remote, asked.key, asked.namespace)
        return self.files.write(call, self.path, self.kv.document, undo)

    @answers(GetKVConfig)
    def get(self, call: Call, asked: GetKVConfig) -> Answer:
        """One value."""
        value = self.kv.get(asked.namespace, asked.key)
        if value is None:
            remark = f"No config item, Namespace: {asked.namespace} Key: {asked.key}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark)
        return GetKVConfigResponse(value=value)

    @answers(GetKVListByNamespace)
    def listed(self, call: Call, asked: GetKVListByNamespace) -> Answer:
        """One namespace."""
        entries = self.kv.of(asked.namespace)
        if entries is None:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {asked.namespace}")
        return begun(spelled(KVTable(table=dict(entries))))
