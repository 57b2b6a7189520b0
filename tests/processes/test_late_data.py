"""domo-client is started by the system before its disk is mounted: it stays, and takes part."""

import signal
from pathlib import Path

import numpy as np

from tests.support.live.coordinator import coordinator
from tests.support.live.federation import Federation

RUN = {"task": "digits", "num_rounds": 1, "num_silos": 1, "local_steps": 1}


def test_a_folder_that_is_not_there_when_the_machine_starts(tmp_path: Path) -> None:
    data, federation = tmp_path / "data", Federation(tmp_path)
    with coordinator(tmp_path, RUN) as server:
        silo = federation.start_silo("site-a", "--data", str(data), address=server.address)
        try:
            silo.wait_for(r"--data \S+: there is no such folder \(yet\)\. This silo joins")
            silo.wait_for(r"not ready for 1-domo-digits: .*: No such file or directory \(looking")
            data.mkdir()
            images, labels = np.zeros((4, 1, 8, 8), np.float32), np.arange(4)
            np.savez(data / "train.npz", inputs=images, labels=labels)
            assert server.ended()["state"] == "FINISHED"
            silo.wait_for("run 1-domo-digits: finished")
            assert silo.stop(signal.SIGINT) == 0
            assert "Traceback" not in silo.output
        finally:
            silo.kill()


def test_ctrl_c_in_a_pause(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    with coordinator(tmp_path, RUN) as server:
        silo = federation.start_silo("site-a", "--data", "absent", address=server.address)
        try:
            silo.wait_for("not ready for 1-domo-digits: ")
            assert silo.stop(signal.SIGINT) == 0
            assert "site-a: stopped" in silo.output
        finally:
            silo.kill()
