"""A task whose code differs by one line between two silos, as processes with files of their own."""

from pathlib import Path

import domo
from tests.support.live.coordinator import coordinator
from tests.support.live.federation import Process
from tests.support.tasks.stored import StoredTask

TASK = """\
from tests.support.tasks.stored import StoredTask


class Task(StoredTask):
    def loss(self, model, batch):
        return super().loss(model, batch) * 1.0
"""


def test_one_line_of_the_loss_is_seen_and_refused_where_a_run_asks_for_it(tmp_path: Path) -> None:
    domo.save_initial(StoredTask().build_model(), tmp_path / "x0.safetensors")
    told = {
        "name": "told", "task": "hospital_task:Task", "method": "DOMO", "num_rounds": 1,
        "num_silos": 2, "local_steps": 1, "batch_size": 4, "local_lr": 0.25,
        "initial_model": str(tmp_path / "x0.safetensors"),
    }  # fmt: skip
    refused = told | {"name": "refused", "same_code": True}
    with coordinator(tmp_path, told, refused, report_interval_s=0.5) as server:
        path, silos = f"/runs/{server.run_ids[0]}", []
        try:
            for name, text in (("site-a", TASK), ("site-b", TASK.replace("1.0", "1.5"))):
                folder = tmp_path / name
                folder.mkdir()
                (folder / "hospital_task.py").write_text(text)
                (folder / "silo.txt").write_text("1")
                command = ["domo-client", "--server", server.address, "--name", name, "--data", "."]
                command += ["--state-dir", "state", "--task", "hospital_task:Task"]
                silos.append(Process(command, tmp_path / f"{name}.log", folder))
                if name == "site-a":
                    server.until(path, lambda run: "1 more" in run["detail"])
                    server.until("/events?kind=enrolled", lambda told: told)
            assert server.ended()["state"] == "FINISHED"
            (event,) = server.get("/events?kind=code-differs")
            assert event["text"].startswith("the code of hospital_task:Task differs: site-b ha")
            assert ".py" not in event["text"], "names of files stay at the silo"
            later = server.until("/events?kind=refused", lambda told: told)[0]["silo_id"]
            other = "the code of the task is [0-9a-f]{16}, wanted is [0-9a-f]{16}"
            silos[["site-a", "site-b"].index(later)].wait_for(other)
            assert server.run(1)["state"] == "WAITING"
        finally:
            for silo in silos:
                silo.kill()
