import pickle
import sys
from pathlib import Path

import pytest
import torch

from domo.errors import ConfigError, TaskError
from domo.model.layout import Section
from domo.tasks import TASKS, load_task
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader
from domo.training.initial import build_initial


def name_of(task: str) -> str:
    return "imagefolder:10" if task == "imagefolder" else task


@pytest.mark.parametrize("name", TASKS)
def test_every_named_task_is_a_task_with_a_description_and_a_hint(name):
    task = load_task(name_of(name))
    assert isinstance(task, Task)
    assert TASKS[name].description
    assert "train" in task.data_hint


@pytest.mark.parametrize("name", [n for n in TASKS if n != "cifar10-vgg16"])
def test_every_model_gives_a_loss_and_sums(name):
    task = load_task(name_of(name))
    inputs = torch.randn(4, *getattr(task, "shape", (3, 32, 32)))
    batch = inputs, torch.tensor([0, 1, 2, 3])
    model = task.build_model()
    task.loss(model, batch).backward()
    with torch.no_grad():
        sums = task.evaluate(model, batch)
    assert sums["accuracy"].num == 4
    assert set(sums) == {"accuracy", "loss"}


@pytest.mark.parametrize("name", TASKS)
def test_every_named_task_can_be_sent_to_another_process(name):
    task = pickle.loads(pickle.dumps(load_task(name_of(name))))
    assert task.data_hint == load_task(name_of(name)).data_hint


def test_only_cifar_has_augmentation():
    with_it = {n for n in TASKS if getattr(load_task(name_of(n)), "augment", None)}
    assert with_it == {n for n in TASKS if n.startswith("cifar")}


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        TaskError, match=r"no task named 'cifar-vgg16'\. Did you mean 'cifar10-vgg16'"
    ):
        load_task("cifar-vgg16")
    with pytest.raises(TaskError, match=r"no task named '!'\. Named tasks: digits, .*module:Class"):
        load_task("!")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("imagefolder", "needs the number of classes in its name: imagefolder:10"),
        ("imagefolder:1", "needs the number of classes"),
        ("digits:10", "the task digits takes no number: write digits, not digits:10"),
        (":Class", "':Class' lacks the module"),
        ("module:", "'module:' lacks the class"),
    ],
)
def test_malformed_names(name, text):
    with pytest.raises(TaskError, match=text):
        load_task(name)


GOOD = """
import torch

class Tumours:
    def build_model(self): return torch.nn.Linear(1, 1)
    def train_data(self, root, shard): return []
    def loss(self, model, batch): return model(batch).mean()
    def evaluate(self, model, batch): return {}

class Half:
    def build_model(self): return torch.nn.Linear(1, 1)
    loss = None

class Picky:
    def __init__(self): raise KeyError("labels.csv")

class Greedy:
    def __init__(self, folder): pass

CONSTANT = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(module: str, text: str) -> None:
        (tmp_path / f"{module}.py").write_text(text)

    return write


def test_a_class_in_the_current_folder_is_a_task(own):
    own("tasks_found", GOOD)
    assert load_task("tasks_found:Tumours").build_model().in_features == 1


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("Tumors", "the module 'tasks_lack' has no 'Tumors'. Did you mean 'tasks_lack:Tumours'"),
        ("Half", "'tasks_lack:Half' is not a task: it lacks train_data, loss, evaluate"),
        (
            "Picky",
            r"could not be made by Picky\(\): KeyError: 'labels.csv' \(.*tasks_lack.py, line",
        ),
        ("Greedy", r"could not be made by Greedy\(\): TypeError: .*'folder'"),
        ("CONSTANT", "is an object of type int; name a class"),
    ],
)
def test_a_class_that_is_no_task_says_why(own, attribute, text):
    own("tasks_lack", GOOD)
    with pytest.raises(TaskError, match=text):
        load_task(f"tasks_lack:{attribute}")


def test_a_module_that_is_not_there_says_where_it_must_be(own, tmp_path):
    with pytest.raises(TaskError) as caught:
        load_task("tasks_absent:X")
    assert str(caught.value) == (
        "there is no module 'tasks_absent'. It must be on PYTHONPATH or in the current folder, "
        f"which is {tmp_path}"
    )


@pytest.mark.parametrize(
    ("module", "source", "text"),
    [
        ("tasks_dep", "\nimport absent_library\n", "No module named 'absent_library'.*line 2"),
        ("tasks_syntax", "def (:\n", r"SyntaxError: .*tasks_syntax.py, line 1"),
        ("tasks_exit", "raise SystemExit(3)\n", "SystemExit: 3"),
        ("tasks_lazy", "def __getattr__(name):\n    raise SystemExit(4)\n", "SystemExit: 4"),
        ("tasks_late", "def __getattr__(name):\n    import absent_library\n", "No module named"),
        (
            "tasks_raise",
            "1 / 0\n",
            r"ZeroDivisionError: division by zero \(.*tasks_raise.py, line 1",
        ),
    ],
)
def test_a_module_that_fails_says_where(own, module, source, text):
    own(module, source)
    with pytest.raises(TaskError, match=f"the module '{module}' could not be imported: .*{text}"):
        load_task(f"{module}:X")


def test_a_tasks_own_error_is_passed_on(own):
    own("tasks_domo", "from domo.errors import ConfigError\ndef X(): raise ConfigError('no GPU')\n")
    with pytest.raises(ConfigError, match=r"^no GPU$"):
        load_task("tasks_domo:X")


def test_shards_train_through_a_loader_with_any_number_of_workers(tmp_path):
    data = load_task("digits").train_data(tmp_path, Shard(1, 4))
    plan = [[3, 1], [0]]
    inputs, labels = next(iter(BatchLoader(data).load(plan)))
    assert torch.equal(inputs, data.inputs[[3, 1]])
    assert torch.equal(labels, data.labels[[3, 1]])


def test_the_page_says_the_sizes_of_the_named_tasks() -> None:
    page = (Path(__file__).parents[4] / "docs" / "tasks.md").read_text("utf-8")
    rows = [[c.strip(" `") for c in x.split("|")] for x in page.splitlines() if x.startswith("| `")]
    told = {row[1]: (row[3], row[4]) for row in rows if row[3].replace(",", "").isdecimal()}
    names = [name if name != "imagefolder" else "imagefolder:10" for name in TASKS]
    assert list(told) == names
    for name in names:
        layout, _ = build_initial(load_task(name), 0)
        sent = [s for s in Section if s is not Section.FROZEN]
        size = sum(layout.num_bytes(section) for section in sent)
        assert told[name] == (f"{layout.num_params:,}", f"{size:,}"), name
