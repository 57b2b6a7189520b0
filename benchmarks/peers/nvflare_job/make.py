"""Write what FLARE needs: a project with free ports, and the job.

Usage: make.py PROJECT_FILE PORT ADMIN_PORT JOB_FOLDER
"""

# Runs where the peer is installed, not domo.
# mypy: ignore-errors

import sys
from pathlib import Path

import yaml
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.lighter.provision import gen_default_project_config
from nvflare.recipe.fedavg import FedAvgRecipe
from plan import Plan
from stamps import Stamps

HERE = Path(__file__).parent
PROJECT = "bench"


def write_project(path: Path, num_silos: int, port: int, admin_port: int) -> None:
    """Write the project that `nvflare poc prepare` makes up, with other ports."""
    gen_default_project_config("dummy_project.yml", str(path))
    project = yaml.safe_load(path.read_text(encoding="utf-8"))
    of_type = {who["type"]: who for who in reversed(project["participants"])}
    server = of_type["server"] | {
        "name": "server",
        "fed_learn_port": port,
        "admin_port": admin_port,
    }
    clients = [of_type["client"] | {"name": f"site-{i + 1}"} for i in range(num_silos)]
    admins = [who for who in project["participants"] if who["type"] == "admin"]
    project["name"] = PROJECT
    project["participants"] = [server, *clients, *admins]
    path.write_text(yaml.safe_dump(project), encoding="utf-8")


def write_job(folder: Path, plan: Plan) -> None:
    """Write FedAvg over all silos, with no evaluation and nothing saved."""
    recipe = FedAvgRecipe(
        name="roundtrip",
        min_clients=len(plan.constants),
        num_rounds=plan.num_rounds,
        train_script=str(HERE / "client.py"),
        framework=FrameworkType.NUMPY,
        model_persistor=Stamps(),
    )
    recipe.add_server_file(str(HERE / "plan.py"))
    recipe.add_client_file(str(HERE / "plan.py"))
    recipe.export(str(folder))


def main() -> None:
    plan = Plan.read()
    project, port, admin_port, job = sys.argv[1:]
    write_project(Path(project), len(plan.constants), int(port), int(admin_port))
    write_job(Path(job), plan)


if __name__ == "__main__":
    main()
