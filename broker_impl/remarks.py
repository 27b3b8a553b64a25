"""Words that several answers end with."""

from __future__ import annotations

from typing import Final

FAQ: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""`FAQUrl.suggestTodo`, behind several remarks."""
UNTOUCHED: Final = "not set any response code"
"""What Java's answers begin with (`RemotingCommand.createResponseCommand`), and some keep, whatever their code becomes."""
