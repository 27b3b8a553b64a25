"""Words that several answers end with."""

from __future__ import annotations

from typing import Final

FAQ: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""`FAQUrl.suggestTodo`, behind several remarks."""
