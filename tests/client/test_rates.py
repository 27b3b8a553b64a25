"""Rates as `mqadmin consumerStatus` shows them, with time handed in."""

from __future__ import annotations

from rmq_client.consuming.rates import NOTE_MS, Rate, TopicRates

BEGAN_MS = 1_700_000_000_000


def test_a_rate_is_that_of_the_last_minute() -> None:
    rate = Rate()
    assert (rate.a_second(), rate.a_step(), rate.in_an_hour()) == (0.0, 0.0, 0)
    for number in range(13):
        rate.add(50)
        rate.note(BEGAN_MS + number * NOTE_MS)
    assert rate.a_second() == 5.0
    for number in range(13, 19):
        rate.note(BEGAN_MS + number * NOTE_MS)
    assert rate.a_second() == 5.0 * 0
    assert rate.a_step() == 0.0


def test_the_mean_of_a_step_falls_back_on_the_hour() -> None:
    rate = Rate()
    for number in range(61):
        if number < 10:
            rate.add(30)
        rate.note(BEGAN_MS + number * NOTE_MS)
    assert rate.a_step() == 0.0
    assert rate.a_step(or_hour=True) == 30.0
    assert rate.in_an_hour() == 300


def test_a_clock_that_stands_still_divides_nothing() -> None:
    rate = Rate()
    for _ in range(10):
        rate.add(1)
        rate.note(BEGAN_MS)
    assert rate.a_second() == 0.0


def test_what_is_shown_of_a_topic() -> None:
    rates = TopicRates()
    rates.pulled.add(32)
    rates.pull_ms.add(8)
    rates.consumed.add(30)
    rates.failed.add(2)
    for took_ms in (10, 20):
        rates.consume_ms.add(took_ms)
    rates.note(BEGAN_MS)
    shown = rates.status()
    assert (shown.pull_rt, shown.pull_tps, shown.consume_rt) == (8.0, 3.2, 15.0)
    assert (shown.consume_ok_tps, shown.consume_failed_tps, shown.consume_failed_msgs) == (3.0, 0.2, 2)
