"""What `make bench-spark` reports: a line for each load held against its target, a line for what each costs per GB at every size.

Cost is wall time per GB, everything in it.  The target is held against the cost without what a query costs that has next to
nothing to do (`fixed`, a tenth of a second of Spark's): that part belongs to no GB, and the faster a load is, the more of its
first GB it would be.  How far the costs lie apart with it stands beside that.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

COST_SPREAD_MAX: Final = 0.25
"""Of the cost per GB at the sizes, without what is fixed: the dearest over the cheapest, less one."""
FIXED_SHARE_MAX: Final = 0.9
"""Of a figure's time: more is never taken off as fixed, so that what is left is a cost."""


class Round(NamedTuple):
    """Of one load, seconds.  plain_s: the plain read of the same files just before."""

    seconds: float
    plain_s: float
    core_s: float


class Figure(NamedTuple):
    """One load at one size."""

    gigabytes: float
    rounds: tuple[Round, ...]

    def median(self, name: str) -> float:
        """Of a field of the rounds."""
        return float(statistics.median(getattr(one, name) for one in self.rounds))

    @property
    def seconds(self) -> float:
        return self.median("seconds")

    @property
    def gb_s(self) -> float:
        return self.gigabytes / self.seconds


def judged_size(sizes: Sequence[float]) -> float:
    """At which the targets are held: the one in the middle, where neither what is fixed nor what grows is hidden."""
    return sorted(sizes)[(len(sizes) - 1) // 2]


def spread(costs: Sequence[float]) -> float:
    """The dearest over the cheapest, less one."""
    return max(costs) / min(costs) - 1


def line_of(
    name: str, target_gb_s: float | None, found: Mapping[float, Figure], sizes: Sequence[float], tiny: float
) -> dict[str, Any]:
    """A load, as `--json` has it.  found: by the size that was asked for; tiny: the size at which only what is fixed costs."""
    at, fixed = found[judged_size(sizes)], found[tiny].seconds
    costs = {size: found[size].seconds / found[size].gigabytes for size in sizes}
    growing = [
        max(found[size].seconds - fixed, found[size].seconds * (1 - FIXED_SHARE_MAX)) / found[size].gigabytes for size in sizes
    ]
    over = spread(growing) if len(sizes) > 1 else None
    return {
        "row": name,
        "targetGbS": target_gb_s,
        "gbS": at.gb_s,
        "isReached": None if target_gb_s is None else at.gb_s >= target_gb_s,
        "plainGbS": at.gigabytes / at.median("plain_s"),
        "shareOfPlain": at.median("plain_s") / at.seconds,
        "coreSecondsPerGb": at.median("core_s") / at.gigabytes,
        "fixedS": fixed,
        "secondsPerGb": {f"{size:g}": cost for size, cost in costs.items()},
        "coreSecondsPerGbBySize": {f"{size:g}": found[size].median("core_s") / found[size].gigabytes for size in sizes},
        "costSpread": over,
        "isSpreadReached": None if over is None else over <= COST_SPREAD_MAX,
        "wholeCostSpread": spread(list(costs.values())) if len(sizes) > 1 else None,
        "rounds": {f"{size:g}": [one._asdict() for one in figure.rounds] for size, figure in found.items()},
    }


def missed(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was promised and not reached, a sentence each."""
    found = []
    for one in lines:
        if one["isReached"] is False:
            found.append(f"{one['row']}: {one['gbS']:.2f} GB/s, the target is {one['targetGbS']}")
        if one["isSpreadReached"] is False:
            spreads = f"its cost per GB, without what is fixed, spreads by {one['costSpread']:.0%}"
            found.append(f"{one['row']}: {spreads}, the target is {COST_SPREAD_MAX:.0%}")
    return found


def table(lines: Sequence[Mapping[str, Any]], sizes: Sequence[float]) -> Iterator[str]:
    """Markdown: the loads against their targets."""
    heads = ["load", f"GB/s at {judged_size(sizes):g} GB", "target", "of a plain read", "core s/GB", "fixed s"]
    yield f"| {' | '.join(heads)} |"
    yield "|---|---:|---|---|---:|---:|"
    for one in lines:
        cells = [
            one["row"],
            f"{one['gbS']:.2f}",
            _bound(one["isReached"], f"≥ {one['targetGbS']}"),
            f"{one['shareOfPlain']:.0%} of {one['plainGbS']:.1f} GB/s",
            f"{one['coreSecondsPerGb']:.2f}",
            f"{one['fixedS']:.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def costs(lines: Sequence[Mapping[str, Any]], sizes: Sequence[float]) -> Iterator[str]:
    """Markdown: seconds per GB at every size, and how far they lie apart.  Nothing of one size."""
    if len(sizes) < 2:
        return
    heads = ["cost per GB", *(f"s at {size:g} GB" for size in sizes), "spread without what is fixed", "target", "with it"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" + "|---:" * (len(sizes) + 1) + "|---|---:|"
    for one in lines:
        cells = [
            one["row"],
            *(f"{one['secondsPerGb'][f'{size:g}']:.2f}" for size in sizes),
            f"{one['costSpread']:.0%}",
            _bound(one["isSpreadReached"], f"≤ {COST_SPREAD_MAX:.0%}"),
            f"{one['wholeCostSpread']:.0%}",
        ]
        yield f"| {' | '.join(cells)} |"


def _bound(is_reached: bool | None, bound: str) -> str:
    return "" if is_reached is None else f"{'reached' if is_reached else 'NOT reached'}: {bound}"


def page(result: Mapping[str, Any]) -> Iterator[str]:
    """Markdown: both tables, and on what they were measured."""
    sizes = result["sizesGb"]
    yield from table(result["rows"], sizes)
    yield ""
    yield from costs(result["rows"], sizes)
    yield ""
    used = ", ".join(f"{name} {text}" for name, text in result["versions"].items())
    how = f"{result['master']}, median of {result['rounds']}, 1 KiB bodies, warm page cache"
    yield f"{result['machine']}; {used}; {how}; {result['date']}."
    yield f"Before the first load: session {result['sessionS']:.1f} s, first query {result['firstQueryS']:.1f} s."
    yield f"The run took {result['tookS']:.0f} s; load of the machine {result['load']:.1f} at its end."
    for name in result["missing"]:
        yield f"Not there: {name}."
    for text in missed(result["rows"]):
        yield f"MISSED: {text}."
