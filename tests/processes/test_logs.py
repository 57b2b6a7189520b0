"""Logs of a process: what the interpreter itself says is JSON as well."""

import json
import subprocess
import sys

SCRIPT = """
import threading, warnings
from domo.ops.console import err_console, say
from domo.ops.logs import setup_logging

setup_logging(form="json", said=True)
say("hello [b]")
err_console.print("network: gone")
err_console.print("error: no such file")
warnings.warn("old", DeprecationWarning)
warnings.warn("odd")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise KeyError("bug")
"""


def test_everything_is_json_where_it_is_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    told = [(line["level"], line["logger"], line["message"]) for line in lines]
    assert told[:3] == [
        ("INFO", "said", "hello [b]"),
        ("WARNING", "said", "network: gone"),
        ("ERROR", "said", "error: no such file"),
    ]
    warned = [line for line in lines if line["logger"] == "py.warnings"]
    assert ["old" in warned[0]["message"], "odd" in warned[-1]["message"]] == [True, True]
    assert [line["exception"].splitlines()[-1] for line in lines[-2:]] == [
        "ZeroDivisionError: division by zero",
        "KeyError: 'bug'",
    ]
    assert {line["level"] for line in lines[-2:]} == {"CRITICAL"}
