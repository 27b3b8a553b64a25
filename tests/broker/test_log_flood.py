"""Every line that a stranger can cause again and again is written so often and no more, at INFO as at WARNING."""

from __future__ import annotations

from rmq_net.log import LINES_MAX

TIMES = 3 * LINES_MAX
