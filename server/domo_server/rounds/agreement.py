"""What the data of a run's silos mean: what the run says, and else the first silo that says it."""

from collections.abc import Mapping

from domo.meaning.compare import described, other_code, unsaid
from domo.meaning.value import Meaning
from domo.names import MOST_TEXT, one_line
from domo.run_config import RunConfig
from domo_server.store.rows import Enrolment


class Agreement:
    """Compares silos; used from the event loop only.

    A silo is compared with the others that are in the run, not with what it has said itself, until
    the run has begun: so it may mend its data and come again. One that an admin has left out is no
    measure for anybody.

    Args:
        config: The run's.
        enrolled: Who has enrolled, with what; kept by the roster.
        dropped: Silos that an admin has left out.
    """

    def __init__(
        self, config: RunConfig, enrolled: Mapping[str, Enrolment], dropped: Mapping[str, str]
    ):
        self._config, self._enrolled, self._dropped = config, enrolled, dropped
        self._said = Meaning(classes=config.classes or ())
        self._givers: list[str] = []  # whose word the measure is, first to last
        self._without: set[str] = set()  # whose word it is not

    def load(self) -> None:
        """Take the word of all that are in the run, one after another."""
        self._said, self._givers = Meaning(classes=self._config.classes or ()), []
        self._without = self._dropped.keys() & self._enrolled.keys()
        for silo_id in self._enrolled:
            if silo_id not in self._without:
                self._take(silo_id)

    def _keep_up(self) -> None:
        """An admin may have left silos out, or taken them back."""
        if self._without != self._dropped.keys() & self._enrolled.keys():
            self.load()

    def _take(self, silo_id: str) -> None:
        """What nobody has said before, this silo says for all."""
        before = self._said
        self._said = before.filled(_for_all(self._enrolled[silo_id]))
        if self._said != before:
            self._givers.append(silo_id)

    def wanted_of(self, silo_id: str | None = None, begun: bool = False) -> Meaning:
        """What a silo's data are to mean; None: of no certain silo.

        Args:
            silo_id: The silo.
            begun: The run has begun, so its own data are to stay what they were.
        """
        self._keep_up()
        if begun or silo_id not in self._givers:
            return self._said
        others = {s: e for s, e in self._enrolled.items() if s != silo_id}
        return agreed(self._config, others, self._dropped)

    def hear(self, silo_id: str) -> list[str]:
        """A silo has enrolled: what of its word is the measure now, and what it leaves open."""
        self._keep_up()
        if silo_id in self._dropped:
            return []
        if silo_id in self._givers:
            self.load()  # it has come again, perhaps with another word
            return []
        before = self._said
        self._take(silo_id)
        new = [line for line in described(self._said) if line not in described(before)]
        notes = []
        if silo_id in self._givers and new:
            said = one_line("; ".join(new))
            notes.append(f"{silo_id} is the first to say what data mean here: {said}")
        if left := unsaid(self._enrolled[silo_id].meaning, before):
            notes.append(f"{silo_id} does not say {', '.join(left)}: nobody can compare that")
        return notes

    def other_code(self, silo_id: str, before: Meaning) -> list[str]:
        """Where a silo's software is not what it was, or not that of the first other one, in words.

        Args:
            silo_id: The silo.
            before: What it said when it enrolled before; nothing, the first time.
        """
        mine, told = self._enrolled[silo_id].meaning, []
        if other_code(mine, before):
            now, then = one_line(mine.code, MOST_TEXT // 2), one_line(before.code, MOST_TEXT // 2)
            had = f"{now}, and had {then} when it enrolled before (sha256)"
            told.append(f"the code of {self._config.task} has changed at {silo_id}: it has {had}")
        others = [s for s in self._enrolled if s != silo_id and s not in self._dropped]
        heard = {s: self._enrolled[s].meaning for s in others}
        first = next((s for s in others if heard[s].code), "")
        if first and other_code(mine, heard[first]):
            told.append(
                f"the code of {self._config.task} differs: {silo_id} has {mine.code}, {first} has "
                f"{heard[first].code} (sha256). If that is more than how data are read, the run's "
                "numbers mean nothing: use the same files, or set same_code = true to refuse it"
            )
        first = next((s for s in others if heard[s].torch), "")
        if mine.torch and first and mine.torch != heard[first].torch:
            told.append(
                f"{silo_id} trains with torch {mine.torch}, {first} with {heard[first].torch}: "
                "the same data give other numbers there"
            )
        return told


def agreed(
    config: RunConfig, enrolled: Mapping[str, Enrolment], dropped: Mapping[str, str]
) -> Meaning:
    """What the data of a run mean, by what the run and its silos say."""
    said = Meaning(classes=config.classes or ())
    for silo_id, enrolment in enrolled.items():
        if silo_id not in dropped:
            said = said.filled(_for_all(enrolment))
    return said


def _for_all(enrolment: Enrolment) -> Meaning:
    """What a silo's word is for others: which labels it has is its own affair."""
    return enrolment.meaning.model_copy(update={"labels": None})
