"""How much each silo's numbers count: no silo counts for more samples than it has enrolled with.

What a silo counts under a name (samples, pixels, words) over what it enrolled with is its count for
each sample. Where all others count their samples, so must it; else its count for each sample may be
`ITEMS` times theirs. What is above counts for as much as that, so that what a silo claims in one
message has a bound; numbers of honest silos stay exact.
"""

from collections.abc import Mapping

from domo.metrics.table import Sum, Table
from domo.model.extremes import low_median

ITEMS = 10.0
"""How many times the others' a silo's count for each sample may be: texts and images differ."""

Nums = Mapping[str, Mapping[str, float]]


def too_heavy(nums: Nums, samples: Mapping[str, int]) -> dict[tuple[str, str], float]:
    """Silo and metric of what counts for too much, and the factor that makes it right.

    Args:
        nums: What each silo counts, by metric.
        samples: Test samples that each enrolled with.
    """
    found: dict[tuple[str, str], float] = {}
    for metric in {name for mine in nums.values() for name in mine}:
        each = {
            silo_id: mine[metric] / samples[silo_id] if samples.get(silo_id) else None
            for silo_id, mine in nums.items()
            if metric in mine
        }
        for silo_id, count in each.items():
            others = [c for name, c in each.items() if name != silo_id and c is not None]
            if silo_id not in samples:
                continue  # a row of nobody's
            if count is None:
                found[silo_id, metric] = 0.0
            elif count > 1 and others:
                usual = low_median(others) or 0.0
                most = 1.0 if set(others) == {1.0} else max(1.0, ITEMS * usual)
                if count > most:
                    found[silo_id, metric] = most / count
    return found


def weighed(one: Sum | Table, factor: float) -> Sum | Table:
    """What was measured, counting for a part of what it says."""
    if isinstance(one, Table):
        return Table(one.kind, one.values * factor, one.labels)
    return Sum(one.total * factor, one.num * factor)


def why_too_heavy(silo_id: str, metric: str, num: float, samples: int, factor: float) -> str:
    """That a silo counts for less than it says, in words."""
    return (
        f"{silo_id} counts {num:.6g} under {metric!r}, and has enrolled with {samples} test "
        f"samples: by what the others count for each sample that is {1 / factor:.4g} times too "
        f"many; it counts for {num * factor:.6g}"
    )
