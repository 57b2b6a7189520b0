"""The records of both ends: what left is what came, each knows the other's head, and kills leave
both whole."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from domo.audit.chain import FOLDER
from domo.audit.looking import compare
from domo.audit.verify import BrokenChainError, read, verify
from domo.ops.exit_codes import OF_STATES
from domo_client import cli as client
from domo_server import cli as server
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import agents, options

RUN = {"task": "digits", "num_rounds": 4, "num_silos": 2, "local_steps": 2, "name": "r"}
NAMES = ["site-a", "site-b"]


def trained(folder: Path) -> Coordinator:
    """A run that has ended, with both ends closed."""
    with coordinator(folder, RUN) as it:
        shards = lambda i: options(shard=(i, 2), cache=folder)  # noqa: E731
        with agents(it.address, NAMES, folder, shards):
            assert it.ended()["state"] == "FINISHED"
    return it


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ended")
    trained(folder)
    return folder


def test_what_left_is_what_came_and_each_knows_the_other(ended: Path) -> None:
    theirs = ended / "coordinator" / FOLDER
    models = [line.said for line in read(theirs) if line.said["what"] == "model"]
    assert [m["model"] for m in models] == [1, 2, 3, 4]
    for name in NAMES:
        ours = ended / f"state-{name}" / FOLDER
        found = compare(ours, theirs, verify(ours))
        assert found.updates == 4
        assert found.heads >= 1
        back = compare(theirs, ours, verify(theirs))
        assert back.updates == 4
        assert back.heads >= 1
        came = {line.said["of_model"] for line in read(ours) if line.said["what"] == "test"}
        assert {m["sha256"] for m in models} <= came, "also the last one, which was tested"


def test_who_and_what_is_in_it(ended: Path) -> None:
    kinds = {line.said["what"] for line in read(ended / "state-site-a" / FOLDER)}
    assert kinds == {"joined", "enrolled", "test", "update", "head", "ended"}
    events = [line.said for line in read(ended / "coordinator" / FOLDER)]
    said = {line.get("kind") for line in events if line["what"] == "event"}
    assert {"joined", "enrolled", "started", "round-committed", "finished"} <= said


def test_an_update_that_differs_is_found(ended: Path, tmp_path: Path) -> None:
    trained(tmp_path)  # the same run with its own secrets and times, and the same updates
    ours, theirs = ended / "state-site-a" / FOLDER, tmp_path / "coordinator" / FOLDER
    assert compare(ours, theirs, verify(ours)).updates == 4
    other = ended / "state-site-b" / FOLDER
    with pytest.raises(BrokenChainError, match="is another one at the other end"):
        _as_site_a(other, theirs)


def _as_site_a(other: Path, theirs: Path) -> None:
    from domo.audit import looking

    updates = looking._updates

    def renamed(said: list[dict[str, object]]) -> dict[looking.Place, set[str]]:
        return {(run, r, "site"): shas for (run, r, _), shas in updates(said).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "_updates", renamed)
        compare(other, theirs, verify(other))


def run_it(app: object, *words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, words)))  # type: ignore[arg-type]
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_commands_show_and_verify(ended: Path) -> None:
    silo, coord = ended / "state-site-a", ended / "coordinator"
    code, text = run_it(client.app, "audit", "show", "--state-dir", silo, "--what", "update")
    assert code == 0
    assert len(text.splitlines()) == 4
    assert "run 1-r" in text
    code, text = run_it(
        client.app, "audit", "verify", "--state-dir", silo, "--other", coord / FOLDER
    )
    assert code == 0
    assert "whole: " in text
    assert "4 updates with the same SHA-256 at both ends" in text
    code, text = run_it(server.app, "audit", "verify", "--state-dir", coord)
    assert (code, "whole: " in text) == (0, True)
    code, text = run_it(server.app, "audit", "show", "--state-dir", coord, "--run", "1-r")
    assert "round-committed" in text


def test_a_cut_is_proved_by_the_other_end(ended: Path, tmp_path: Path) -> None:
    """The silo begins its record anew; the coordinator knows better."""
    import shutil

    from domo.audit.chain import Chain

    silo = tmp_path / "silo"
    shutil.copytree(ended / "state-site-a" / FOLDER, silo / FOLDER)
    for path in (*(silo / FOLDER).glob("*.jsonl"), silo / FOLDER / "head.json"):
        path.unlink()
    chain = Chain(silo)
    chain.add("joined", name="site-a")
    chain.close()
    assert verify(silo / FOLDER).n == 1
    with pytest.raises(BrokenChainError, match="is not the one that was told to others"):
        compare(silo / FOLDER, ended / "coordinator" / FOLDER, verify(silo / FOLDER))
    assert OF_STATES
