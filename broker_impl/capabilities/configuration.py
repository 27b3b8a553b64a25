"""The configuration from afar: shown (26) and changed (25).

A change is checked whole before anything of it is made; it reaches the file that was given at the start, replaced in one step,
and no other place.  Java: `AdminBrokerProcessor.updateBrokerConfig`, `getBrokerConfig`, `Configuration`.  Differences:
secrets are masked; values that cannot be read, and keys that count at the start only, are refused where Java says yes and does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker_impl.call import LATER, Answer, Call, Parked, Refusal, Reply
from broker_impl.config import BrokerConfig, UpdateRefused
from broker_impl.config_keys import keys
from broker_impl.router import Capability, answers
from rmq_net.log import Log
from rmq_wire.bodies import properties_text
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.configuration import GetBrokerConfig, GetBrokerConfigResponse, UpdateBrokerConfig

WriteFile = Callable[[str, bytes, Callable[[BaseException | None], None]], None]


class Configuration(Capability):
    """`write_file(path, text, then)` replaces the file given at the start and says `then(error)`; `register()` tells the name
    servers of all topics.
    """

    def __init__(self, config: BrokerConfig, write_file: WriteFile, register: Callable[[], None] = lambda: None) -> None:
        self._config = config
        self._write_file = write_file
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
        try:
            changed = self._config.change(entries)
        except UpdateRefused as no:
            code = ResponseCode.NO_PERMISSION if no.forbidden else ResponseCode.INVALID_PARAMETER
            call.env.log.warning("configuration change by %s refused: %s", call.peer, no.remark)
            raise Refusal(code, no.remark) from None
        self._config.data_version.advance(call.env.wall_ms)
        call.env.log.warning(
            "configuration changed by %s: %s",
            call.peer,
            {name: self._config.shown(name) for name in sorted(changed)},
        )
        later = sorted(name for name in changed if keys()[name].next_start)
        if later:
            call.env.log.warning("these count from the next start: %s", ", ".join(later))
        if "brokerPermission" in entries:
            self._register()
        if self._config.path is None:
            return Reply()
        self._write_file(
            self._config.path, self._config.file_text(), partial(self._saved, call.detach(), call.env.log, self._config.path)
        )
        return LATER

    @staticmethod
    def _saved(asker: Parked, log: Log, path: str, failed: BaseException | None) -> None:
        if failed is None:
            asker.answer(Reply())
            return
        log.error("%s could not be written, the change lasts until the next start: %s", path, failed)
        remark = f"changed until the next start; {path} could not be written: {failed}"
        asker.answer(Refusal(ResponseCode.SYSTEM_ERROR, remark))
