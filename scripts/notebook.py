"""Run a notebook from a clean kernel, and write it down with what its cells give.

python scripts/notebook.py docs/tutorial.ipynb             in place, with a new folder to work in
python scripts/notebook.py docs/tutorial.ipynb --out FILE  elsewhere
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELL_S = 240
"""How long a cell may take, and the start of a kernel."""


def execute(source: Path, out: Path) -> None:
    """Run all cells in order.

    Raises:
        CellExecutionError: One of them fails; nothing is written.
    """
    notebook = nbformat.read(source, as_version=4)
    with TemporaryDirectory(prefix="domo-notebook-") as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_S,
            startup_timeout=CELL_S,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
    nbformat.validate(notebook)
    nbformat.write(notebook, out)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--out", type=Path, help="where to write it [default: in place]")
    given = parser.parse_args()
    # a kernel is this Python, and finds what this one finds
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        execute(given.notebook, given.out or given.notebook)
    except CellExecutionError as error:
        sys.exit(f"{given.notebook}: a cell fails:\n{error}")
    sys.stdout.write(f"{given.out or given.notebook}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
