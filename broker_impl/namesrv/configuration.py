"""The configuration shown and changed from outside (codes 319 and 318; Java: `DefaultRequestProcessor`, `Configuration`).

Whoever reaches the port may ask, so: nothing on the black list, no value that could become another key in the file, and nothing
that would keep the server from starting again.
"""

from __future__ import annotations

from broker_impl.engine.call import Answer, Call, Refusal, Reply
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, joined
from broker_impl.namesrv.config import ConfigError, NamesrvConfig
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
        return Reply(body=properties_text.dumps(self.config.values()).encode())

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
        for key, value in wanted.items():
            if not (properties_text.is_one_line(key) and properties_text.is_one_line(value)):
                raise Refusal(ResponseCode.INVALID_PARAMETER, f"a value of one line is expected for {plain_text(key, 64)}")
        if not self.config.black_list().isdisjoint(wanted):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        undo = self.config.way_back()
        try:
            said = self.config.update(wanted)
        except ConfigError as why:
            raise Refusal(ResponseCode.INVALID_PARAMETER, plain_text(why)) from None
        for line in said:
            call.env.log.warning("configuration by %s:%d: %s", *call.peer.remote, line)
        return self.files.write(call, self.path, self._text, undo)

    def _text(self) -> Slices[bytes]:
        return joined([properties_text.dumps_escaped(self.config.values()).encode()])
