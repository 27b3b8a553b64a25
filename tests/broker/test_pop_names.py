"""Two pops of one name, as random days have found them: the model of those days asks for no more than the broker promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_wire.headers.offsets import ResetOffset
from tests.support.pop_client import Got, change, changed
from tests.support.pop_models import name_of
from tests.support.pop_sim import PopDay
from tests.support.requests import send


class DayOfOneName(PopDay):
    """The two messages of a queue are popped, and after a reset once more in the same millisecond."""

    def more_settings(self) -> dict[str, str]:
        return {"enablePopBufferMerge": "false", "reviveQueueNum": "1"}

    def pop_both(self) -> list[Got]:
        found = self.ask_pop("G", queue=0, count=2, invisible_time=5_000)
        self.loose.got(found)
        return found.got

    def give_back(self, way: str, one: Got) -> None:
        if way == "with more time":
            answer = self.client.ask(change(one, "G", 20_000))
            later = changed(one, answer)
            self.loose.changed(one, later, self.wall_ms(), suspend=False)
            one = later
        self.ack_one(one)

    def pop_twice(self, way: str) -> None:
        for number in range(2):
            assert self.client.ask(send("T", 0), b"%d" % number).code == 0
            self.loose.sent(number, 0, number)
            self.ordered.sent(number, 0, number)
        first = self.pop_both()
        if way != "late":
            self.give_back(way, first[0])
        asked = ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=0, offset=0)
        assert self.client.ask(asked).code == 0
        self.loose.reset(0, 0)
        again = self.pop_both()
        assert [name_of(one) for one in again] == [name_of(one) for one in first]
        if way == "late":
            self.ack_one(first[0])


@pytest.mark.parametrize("way", ["at once", "late", "with more time"])
def test_an_acknowledgement_counts_for_the_other_pop_of_its_name(way: str, tmp_path: Path) -> None:
    """It does not come a third time, though the second pop gave it back to nobody; the other one of the two, which nobody
    acknowledged, does.  (In Java the later check point takes the place of the earlier.)
    """
    day = DayOfOneName(0, tmp_path, calm=True)
    day.pop_twice(way)
    assert day.loose.waiting() == [1]
    day.end()
    held = [state.held for state in day.loose.all.values()]
    assert [one.topic for one in held if one is not None] == ["T", "%RETRY%G+T"]
