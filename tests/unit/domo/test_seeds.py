import itertools

from domo.seeds import seed_for


def test_seeds_differ_by_everything_they_are_for() -> None:
    where = itertools.product((0, 1), ("a", "b", "1"), (0, 1, 11), (0, 1, 11), ("order", "model"))
    seeds = [seed_for(*w) for w in where]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**63 for s in seeds)


def test_seeds_do_not_change_between_versions() -> None:
    """Stored runs are replayed by these numbers."""
    assert seed_for(0, "silo-0", 0, 0, "order") == 3673922833835869532
    assert seed_for(7, "b", 3, 12, "model") == 828385141447685879
