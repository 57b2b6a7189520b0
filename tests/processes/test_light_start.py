"""A process loads what it needs: torch is slow to load, and most commands need none."""

import subprocess
import sys


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
