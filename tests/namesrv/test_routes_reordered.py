"""Registrations, moves, goodbyes, closed connections and time in any order, against a model (`history`)."""

from __future__ import annotations

from hypothesis import settings

from tests.namesrv.history import NameServerHistory

TestNameServerHistory = NameServerHistory.TestCase
TestNameServerHistory.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
