"""Peers in virtual environments of their own."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

LEFT_OUT = ("PYTHON", "VIRTUAL_ENV", "DOMO_", "FLWR_", "NVFLARE_", "NVFL_")
"""Beginnings of variables that change how a peer runs; a measurement starts without."""


@dataclass(frozen=True)
class Package:
    """A peer as pip knows it."""

    peer: str
    name: str
    requirements: tuple[str, ...]
    size_mb: int
    """About what it takes on disk with all that it needs."""


def installed(package: Package) -> tuple[Path, str]:
    """The folder with a peer's commands, and its version. Installs it on first use."""
    venv = user_cache_path("domo-bench") / package.peer
    done = venv / "requirements.txt"
    wanted = "\n".join(package.requirements)
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        print(
            f"installing {' '.join(package.requirements)} into {venv}, "
            f"which takes about {package.size_mb} MB on disk",
            file=sys.stderr,
            flush=True,
        )
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *package.requirements], check=True, stdout=sys.stderr)
        done.write_text(wanted, encoding="utf-8")
    code = f"from importlib.metadata import version; print(version({package.name!r}))"
    asked = subprocess.run(
        [venv / "bin" / "python", "-c", code], check=True, capture_output=True, text=True
    )
    return venv / "bin", asked.stdout.strip()


def environment(bin_folder: Path, folder: Path) -> dict[str, str]:
    """A peer's variables: its own commands, a home under the folder, no way out by a proxy."""
    home = folder / "home"
    home.mkdir()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LEFT_OUT) and not name.lower().endswith("_proxy")
    }
    path = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return kept | {
        "HOME": str(home),
        "PATH": path,
        "PYTHONUNBUFFERED": "1",
    }
