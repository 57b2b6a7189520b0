"""The end by force: a second signal is enough, and no terminal that takes nothing is waited for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys, time
from domo.stages.stopping import TWICE_S, stops

def stubborn(*_):
    time.sleep(2 * TWICE_S)
    os.write(1, b"heard\\n")

signal.signal(signal.SIGINT, stubborn)
signal.signal(signal.SIGHUP, stubborn)
with stops(lambda text: print("x" * 10**6), {limit}, {limit}, hangs_up=True):
    os.write(1, b"goes on\\n")
    while True:
        {step}
"""


@pytest.mark.parametrize(
    ("limit_s", "step", "signals"),
    [
        (60.0, "time.sleep(60)", [signal.SIGINT, signal.SIGINT]),
        (0.2, "print('x' * 10**6)", [signal.SIGINT]),
        (0.2, "time.sleep(60)", [signal.SIGHUP]),
    ],
)
def test_a_process_that_goes_on_is_ended(
    limit_s: float, step: str, signals: list[signal.Signals]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(limit=limit_s, step=step)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        for number in signals:
            assert process.stdout.readline() in (b"goes on\n", b"heard\n")
            began = time.monotonic()
            process.send_signal(number)
        assert process.wait(30) == 128 + signals[-1]  # with a full pipe, which nobody reads
    assert time.monotonic() - began < 20


THREAD = """
import threading, time
from domo.stages.stopping import end_soon, stops

threading.Thread(target=threading.Event().wait, name="of-a-task").start()
try:
    with stops(print):
        print("goes on", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("stopped", flush=True)
finally:
    end_soon(print, 0.2)
"""


def test_a_thread_of_the_users_that_goes_on_keeps_no_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THREAD],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"goes on\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()
        told = b"stopped\nended by force: the thread 'of-a-task' goes on\n"
        assert process.stdout.read() == told
