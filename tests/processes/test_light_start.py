"""A process loads what it needs: torch is slow to load, and most commands need none."""

import subprocess
import sys

import pytest


def test_help_does_not_load_torch():
    code = "import sys, domo.commands.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_wrong_is_said_before_torch_is_loaded() -> None:
    modules = "domo_server.app, domo.remote.watch, domo_client.cli"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_importing_loads_neither_torch_nor_the_network() -> None:
    code = (
        "import sys, domo, domo_client, domo_server; domo.DomoError, domo.METHODS, domo.RunConfig\n"
        "sys.exit(' '.join({'torch', 'numpy', 'grpc', 'httpx', 'rich'} & set(sys.modules)) or None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


SIMULATED = """
import domo
domo.simulate("digits", num_rounds=2, local_steps=2)
"""
DEPLOYED = """
import contextlib, pathlib, tempfile
import domo, domo_client.cli, domo_server.testing
run = {"task": "digits", "num_rounds": 2, "num_silos": 1, "local_steps": 2}
with tempfile.TemporaryDirectory() as folder:
    with domo_server.testing.coordinator(run, state_dir=pathlib.Path(folder, "state")) as there:
        sys.argv = ["domo-client", "--server", there.address, "--name", "a", "--shard", "0/1"]
        sys.argv += ["--once", "--state-dir", folder + "/a"]
        with contextlib.suppress(SystemExit):
            domo_client.cli.main()
        assert there.rest().runs()[0].state == "FINISHED"
"""
COMPILER = "torch._dynamo", "torch._inductor", "sympy", "mpmath", "functorch", "triton"
OF_IMAGES = ("torchvision",)


@pytest.mark.parametrize("run", [SIMULATED, DEPLOYED], ids=["simulated", "deployed"])
def test_a_run_loads_neither_the_compiler_of_torch_nor_torchvision(run: str) -> None:
    """Two seconds and 160 MB in every process; torch's optimizers and its switches load it."""
    code = f"import sys\n{run}\nprint(*{{*sys.modules}} & {{*{COMPILER + OF_IMAGES}}}, sep=' ')"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[-1] == ""
