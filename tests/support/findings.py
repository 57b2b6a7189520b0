"""What `domo-client doctor` and `domo-server check` say with --json."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """Exit code and findings."""

    code: int
    found: list[dict[str, str]]

    def of(self, state: str) -> set[str]:
        return {f["check"] for f in self.found if f["state"] == state}

    def blames(self, check: str, text: str, mend: str) -> None:
        """There is one problem, and it is said and mended so."""
        assert self.code == 1
        problems = [f for f in self.found if f["state"] == "problem"]
        assert [f["check"] for f in problems] == [check], self.found
        assert text in problems[0]["text"]
        assert mend in problems[0]["mend"]
