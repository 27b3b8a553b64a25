"""The configuration shown and changed from outside (codes 319 and 318; Java: `DefaultRequestProcessor`, `Configuration`).

Whoever reaches the port may ask, so: nothing on the black list, no value that could become another key in the file, and nothing
that would keep the server from starting again.
"""

from __future__ import annotations

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, joined
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.properties import BadConfig
from broker_impl.whole_files import WholeFiles
from rmq_net.log import plain_text
from rmq_wire.bodies import properties_text
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.naming import GetNamesrvConfig, UpdateNamesrvConfig


class Configuration(Capability):
    """The keys of `NamesrvConfig`."""

    def __init__(self, config: NamesrvConfig, files: WholeFiles) -> None:
        self.config = config
        self.files = files
        self.path = config.config_store_path

    @answers(GetNamesrvConfig)
    def get(self, call: Call, _: GetNamesrvConfig) -> Answer:
        """Every key with a value."""
        return Reply(body=self.config.listing().encode())

    @answers(UpdateNamesrvConfig)
    def update(self, call: Call, _: UpdateNamesrvConfig) -> Answer:
        """Change keys and save the file that was opened at the start."""
        body = call.checked_body()
        if not body:
            return Reply()
        self.files.check_room(self.path)
        try:
            wanted = properties_text.loads(bytes(body).decode(errors="replace"))
        except BadBody:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
        undo = self.config.way_back()
        try:
            changed = self.config.change(wanted)
        except BadConfig as no:
            raise Refusal(ResponseCode.NO_PERMISSION if no.forbidden else ResponseCode.INVALID_PARAMETER, str(no)) from None
        said = [f"{name} is now {plain_text(self.config.shown(name))}" for name in sorted(changed.names)]
        later = [f"{name} counts from the next start" for name in self.config.later(changed.names)]
        for line in [*said, *later, *(f"not taken: {why}" for why in changed.passed_over)]:
            call.env.log.warning("configuration by %s:%d: %s", *call.peer.remote, line)
        return self.files.write(call, self.path, self._text, undo)

    def _text(self) -> Slices[bytes]:
        return joined([self.config.file_text()])
