"""A user that is only a number, as containers have it: no name, no home, no environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
UID = 12345
MAY_READ = "+dac_read_search"
"""Python and domo may lie where only their owner looks; nothing may be written."""
NO_HOME = f"there is no home folder here (HOME is not set, and user id {UID} has none)"


def typed(folder: Path, *command: str, home: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of domo as such a user; `folder` is all that it may write."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() or setpriv is None:
        pytest.skip("to be somebody else takes root and setpriv")
    os.chown(folder, UID, UID)
    caps = ["--inh-caps", MAY_READ, "--ambient-caps", MAY_READ]
    user = [setpriv, "--reuid", str(UID), "--regid", str(UID), "--clear-groups", *caps]
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*user, str(BIN / command[0]), *command[1:]],
        env=env | ({"HOME": home} if home else {}),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder that such a user can reach and write."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/") and "pytest" in folder.name:
            folder.chmod(0o755)
    made = tmp_path / "own"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("domo-client health", f"{NO_HOME}, so the silo's state has no place: give --state-dir"),
        (
            "domo-server",
            f"the command line: {NO_HOME}, so the coordinator's state has no place: "
            "give --state-dir, or state_dir in [server]",
        ),
        (
            "domo stop a-run",
            "this needs a token, and there is no home folder here: give --token-file, or set "
            "DOMO_TOKEN. On the coordinator's machine `domo-server token create` makes tokens",
        ),
    ],
)
def test_what_needs_a_home_says_so_in_one_line_and_names_the_flag(
    command: str, text: str, own: Path
) -> None:
    done = typed(own, *command.split())
    assert done.returncode == 2
    assert done.stderr == f"error: {text}\n"


def test_what_was_given_a_place_needs_no_home(own: Path) -> None:
    made = typed(own, "domo", "simulate", "--rounds", "1", "--silos", "2", "--out", f"{own}/out")
    assert (made.returncode, made.stderr) == (0, "")
    assert (own / "out" / "model.safetensors").exists()
    shown = typed(own, "domo-server", "config")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert '# state_dir = "/var/lib/domo/coordinator"   # an example' in shown.stdout


def test_a_home_that_cannot_be_written(own: Path) -> None:
    flags = ["--server", "127.0.0.1:1", "--name", "site-a", "--device", "cpu"]
    done = typed(own, "domo-client", *flags, home="/")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the state folder /.local/state/domo/silos/site-a cannot be used: Permission "
        "denied; choose another with --state-dir\n"
    )
