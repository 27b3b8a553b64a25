"""The configuration from afar: shown (26) and changed (25).

A change is checked whole before anything of it is made; it reaches the file that was given at the start, replaced in one step,
and no other place.  Java: `AdminBrokerProcessor.updateBrokerConfig`, `getBrokerConfig`, `Configuration`.  Differences:
secrets are masked; values that cannot be read, and keys that count at the start only, are refused where Java says yes and does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, joined
from broker_impl.properties import BadConfig
from broker_impl.whole_files import WholeFiles
from rmq_wire.bodies import properties_text
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.configuration import GetBrokerConfig, GetBrokerConfigResponse, UpdateBrokerConfig


class Configuration(Capability):
    """`register()` sends all topics to the name servers."""

    def __init__(self, config: BrokerConfig, files: WholeFiles, register: Callable[[], None] = lambda: None) -> None:
        self._config = config
        self._files = files
        self._register = register

    @answers(GetBrokerConfig)
    def show(self, call: Call, asked: GetBrokerConfig) -> Answer:
        """Every property that has a value."""
        version = self._config.data_version
        version.timestamp = version.timestamp or call.env.wall_ms
        return Reply(header=GetBrokerConfigResponse(version=version.encode().decode()), body=self._config.listing().encode())

    @answers(UpdateBrokerConfig)
    def change(self, call: Call, asked: UpdateBrokerConfig) -> Answer:
        """Change what is named, all or nothing."""
        body = call.checked_body()
        if not body:
            return Reply()
        try:
            entries = properties_text.loads(bytes(body).decode())
        except (BadBody, UnicodeDecodeError):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
        path = self._config.path
        if path is not None:
            self._files.check_room(path)
        restore = self._config.way_back()
        try:
            changed = self._config.change(entries).names
        except BadConfig as no:
            code = ResponseCode.NO_PERMISSION if no.forbidden else ResponseCode.INVALID_PARAMETER
            call.env.log.warning("configuration change by %s refused: %s", call.peer, no)
            raise Refusal(code, str(no)) from None
        self._config.data_version.advance(call.env.wall_ms)
        call.env.log.warning(
            "configuration changed by %s: %s",
            call.peer,
            {name: self._config.shown(name) for name in sorted(changed)},
        )
        if later := self._config.later(changed):
            call.env.log.warning("these count from the next start: %s", ", ".join(later))
        if "brokerPermission" in entries:
            self._register()
        if path is None:
            return Reply()
        env = call.env

        def undo() -> None:
            restore()
            self._config.data_version.advance(env.wall_ms)
            if "brokerPermission" in entries:
                self._register()

        return self._files.write(call, path, self._text, undo)

    def _text(self) -> Slices[bytes]:
        return joined([self._config.file_text()])
