"""What a check of a set-up has found: a line for each finding, and a table of how to mend it.

`domo-client doctor` and `domo-server check` are lists of checks. A check yields findings; nothing
that it meets becomes a traceback.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

import domo
from domo.errors import DomoError
from domo.names import MOST_SAID, one_line
from domo.ops.console import complain, console, say
from domo.ops.exit_codes import INTERRUPTED
from domo.outside.faults import outside
from domo.stages.limited import MOVES_S, STILL_S, Limited, leave
from domo.stages.stopping import stops
from domo.stages.table import STAGES
from domo.stages.watch import Seen

log = logging.getLogger(__name__)

UNENDED = {
    "blocked": "see to the disk or the network drive that it waits for: is it mounted, does it "
    "answer?",
    "still": "it neither computes nor reads: see what it waits for there, such as a network, a "
    "lock, a drive, or an answer at the keyboard; if that is right so, --limit 3600 waits for an "
    "hour",
    "moves": "it computes or reads, so it may just be slow: --limit 3600 waits for an hour",
}
"""What to do about a check that does not end, by what its process is seen to do."""
STOP_S = 1.0
"""How long what is under way may take to end after Ctrl-C: nothing in hand could be lost."""

State = Literal["ok", "warning", "problem", "not checked"]
STYLES: dict[State, str | None] = {
    "ok": "green",
    "warning": "yellow",
    "problem": "red",
    "not checked": "dim",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: How it is; `not checked` where something else is missing.
        text: What is so, or what is wrong and where.
        mend: What to do about it.
        elsewhere: What is said in place of the text where others read it: without names of files
            and values of data. Empty: the text.
    """

    state: State
    text: str
    mend: str = ""
    elsewhere: str = ""

    def __post_init__(self) -> None:
        """One line each: a peer's text may be in them, as of a certificate that nobody trusts."""
        for name in ("text", "mend", "elsewhere"):
            object.__setattr__(self, name, one_line(getattr(self, name), MOST_SAID))


def ok(text: str, elsewhere: str = "") -> Finding:
    """All is well."""
    return Finding("ok", text, elsewhere=elsewhere)


def warning(text: str, mend: str, elsewhere: str = "") -> Finding:
    """It works, and somebody should know."""
    return Finding("warning", text, mend, elsewhere)


def problem(text: str, mend: str, elsewhere: str = "") -> Finding:
    """It does not work."""
    return Finding("problem", text, mend, elsewhere)


def unchecked(text: str, mend: str = "", elsewhere: str = "") -> Finding:
    """It could not be looked at."""
    return Finding("not checked", text, mend, elsewhere)


def _where(seen: Seen) -> str:
    stage = f": {STAGES[seen.stage]}" if seen.stage else ""
    return f"{stage}{', in ' if stage else ': in '}{seen.place}" if seen.place else stage


@dataclass
class Report:
    """Runs checks and keeps what they find.

    Attributes:
        quiet: Print nothing while they run.
        limited: Runs them, each within limits.
        found: (name of the check, finding), in order.
        hung: Names of those that did not end.
    """

    quiet: bool = False
    limited: Limited = field(default_factory=Limited)
    found: list[tuple[str, Finding]] = field(default_factory=list)
    hung: set[str] = field(default_factory=set)

    def run(self, name: str, check: Callable[[], Iterable[Finding]]) -> bool:
        """Run a check, a line for each finding as it comes; returns whether none is a problem."""
        before = len(self.found)

        def tell(seen: Seen) -> None:
            if not self.quiet:
                text = f"still at it after {seen.for_s:.0f} s{_where(seen)}"
                say(f"{'...':<11}  {name:<21}  {text}", style="dim")
                console.file.flush()

        left = self.limited.run(lambda: self._look(name, check), tell)
        if left is not None:
            self.hung.add(name)
            text = f"did not end in {left.for_s:.0f} s"
            mend, bare = UNENDED.get(left.activity, UNENDED["moves"]), left._replace(place="")
            self.add(name, problem(f"{text}{_where(left)}", mend, f"{text}{_where(bare)}"))
        return not any(f.state == "problem" for _, f in self.found[before:])

    def _look(self, name: str, check: Callable[[], Iterable[Finding]]) -> None:
        try:
            for finding in check():
                if name in self.hung:
                    return  # it was left, and said to be
                self.add(name, finding)
        except DomoError as error:
            self.add(name, problem(str(error), "see the text", outside(error)))
        except (Exception, SystemExit) as error:
            log.debug("the check %s failed", name, exc_info=True)
            text = f"this check failed: {type(error).__name__}: {error}"
            mend = "DOMO_LOG_LEVEL=DEBUG shows where; if it is not yours to mend, please report it"
            self.add(name, problem(text, mend, f"this check failed: {outside(error)}"))

    def add(self, name: str, finding: Finding) -> None:
        """Keep a finding, and print its line."""
        self.found.append((name, finding))
        if not self.quiet:
            style = STYLES[finding.state]
            left = finding.state == "not checked" and finding.mend  # in no table
            text = f"{finding.text}: {finding.mend}" if left else finding.text
            say(f"{finding.state:<11}  {name:<21}  {text}", style=style)
            console.file.flush()

    @property
    def state(self) -> State:
        """The worst of all findings: ok, warning or problem."""
        states = {f.state for _, f in self.found}
        return next((s for s in ("problem", "warning") if s in states), "ok")

    @property
    def exit_code(self) -> int:
        """1 where there is a problem."""
        return 1 if self.state == "problem" else 0

    def as_json(self, names: bool = True) -> str:
        """All findings, for scripts.

        Args:
            names: Whether names of files and values of data may be in them, as on the terminal.
        """
        checks: list[dict[str, Any]] = []
        for name, f in self.found:
            text, mend = f.text if names else f.elsewhere or f.text, f.mend
            if not names:
                text, mend = without_home(text), without_home(mend)
            checks.append({"check": name, "state": f.state, "text": text, "mend": mend})
        body = {"domo": domo.__version__, "state": self.state, "checks": checks}
        return json.dumps(body, indent=2)

    def close(self, good: str) -> None:
        """The last word: a table of what is wrong and how to mend it, or that nothing is."""
        wrong = [(n, f) for n, f in self.found if f.state in ("problem", "warning")]
        if not wrong:
            left = sum(f.state == "not checked" for _, f in self.found)
            say(f"{good}; {left} not checked" if left else good)
            return
        table = Table("", "where", "what is wrong", "how to mend it", show_lines=True)
        for name, f in wrong:
            table.add_row(
                Text(f.state, STYLES[f.state] or ""),
                name,
                Text(f.text),
                Text(f.mend),
            )
        console.print(table)


def without_home(text: str) -> str:
    """A text in which the user's home, and with it the user's name, is `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111 - without a home it stays `~`, and is no error
    return text if home in ("~", "/") else text.replace(home, "~")


def carry_out(look: Callable[[Limited], Report], limit_s: float | None) -> int:
    """Run checks to their end, or until Ctrl-C; the last of a command.

    Args:
        look: Runs them, each within limits, and prints what is to be printed.
        limit_s: How long a check may take; None: as `domo.stages.limited` has it.

    Returns:
        The exit code. Where a check was left, this process is ended with it.
    """
    limited = Limited(limit_s or STILL_S, limit_s or MOVES_S, by_force=True)

    def to_the_end() -> int:
        report = look(limited)
        if report.hung:
            leave(report.exit_code)
        return report.exit_code

    try:
        with stops(lambda text: complain("stopped", "red"), STOP_S, STOP_S):
            return limited.serve(to_the_end)
    except KeyboardInterrupt:
        complain("stopped", "red")
        leave(INTERRUPTED)
