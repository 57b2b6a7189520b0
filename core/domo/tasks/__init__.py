"""Tasks: what is trained on what. `load_task` finds one by name."""

import importlib
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from domo.errors import ConfigError, DomoError, TaskError
from domo.inputs.images import ImageSettings
from domo.outside.faults import kind_of_fault
from domo.outside.text import saying, task_error
from domo.stages.stopping import Ended
from domo.tasks import models, named
from domo.tasks.base import Task
from domo.tasks.image_task import with_classes, with_images

WHERE = "It must be on PYTHONPATH or in the current folder"
NEEDED = ("build_model", "train_data", "loss", "evaluate")


class NamedTask(NamedTuple):
    """A row of the table of tasks."""

    description: str
    factory: Callable[..., Task]


TASKS: dict[str, NamedTask] = {
    "digits": NamedTask("8x8 digits (embedded), small CNN: the demo", named.digits),
    "fashion-mnist": NamedTask(
        "Fashion-MNIST at 14x14, 10,240 images, MLP: quick comparisons", named.fashion_mnist
    ),
    "fashion-mnist-quick-cnn": NamedTask(
        "Fashion-MNIST at 14x14, 10,240 images, small CNN", named.fashion_mnist_quick_cnn
    ),
    "fashion-mnist-cnn": NamedTask("Fashion-MNIST at 28x28, small CNN", named.fashion_mnist_cnn),
    "cifar10-cnn": NamedTask(
        "CIFAR-10 or a folder of its images, small CNN: quick on a CPU",
        partial(named.cifar10, named.cifar_cnn),
    ),
    "cifar10-vgg16": NamedTask("CIFAR-10, VGG-16", partial(named.cifar10, models.vgg16)),
    "cifar10-resnet56": NamedTask("CIFAR-10, ResNet-56", partial(named.cifar10, models.resnet56)),
    "cifar100-vgg16": NamedTask("CIFAR-100, VGG-16", partial(named.cifar100, models.vgg16)),
    "cifar100-resnet56": NamedTask(
        "CIFAR-100, ResNet-56", partial(named.cifar100, models.resnet56)
    ),
    "svhn-resnet20": NamedTask("SVHN, ResNet-20", named.svhn_resnet20),
    "imagefolder": NamedTask(
        "any folder of images for each class, small CNN; imagefolder:10 for 10 classes",
        named.image_folder,
    ),
}
"""Name -> description and factory."""


def is_named(name: str) -> bool:
    """Whether it is a task of the table, with a number or not; `digits:Class` is somebody's own."""
    base, colon, rest = name.partition(":")
    return base in TASKS and (not colon or (rest.isascii() and rest.isdecimal()))


def check_named(name: str, given: str | None, command: str) -> None:
    """See that a task that a file or a peer names is one that comes with domo, or was named here.

    To import a module is to run it, and whoever wrote the file could name any.

    Args:
        name: The task, as the file says.
        given: As the operator said with `--task`; None: nothing was said.
        command: What was typed, without `--task`.

    Raises:
        ConfigError: It is neither.
    """
    if given is not None and given != name:
        raise ConfigError(f"--task {given}: the task here is {name}")
    if given is None and not is_named(name):
        raise ConfigError(
            f"the task here is {name}, code that does not come with domo; nothing of it was "
            f"imported. If you know it and trust it: {command} --task {name}"
        )


def check_images(name: str, images: ImageSettings | None) -> None:
    """See that a task takes the image settings of a run; imports nobody's code.

    Raises:
        TaskError: It reads no folders of images, or its model is for images of another size.
    """
    if images is not None and not is_named(name):
        raise task_error(
            f"images: these are settings of named tasks on folders of images; {name} reads its "
            "data itself"
        )
    if images is not None:
        load_task(name, images)


def load_task(
    name: str, images: ImageSettings | None = None, classes: tuple[str, ...] | None = None
) -> Task:
    """Find a task: a named one (see `TASKS`), or `module:Class`, made without arguments.

    `imagefolder:N` is the named task for N classes. A module is looked for on PYTHONPATH and in
    the current folder.

    Args:
        name: The task.
        images: The run's settings of image files, if it has any.
        classes: The run's list of classes, if it has one.

    Raises:
        TaskError: Says what failed: the name, the import, the class, its construction, what the
            object lacks, or that it does not take these settings.
    """
    base, colon, rest = name.partition(":")
    if is_named(name):
        return with_classes(_named(base, rest, images), classes)
    check_images(name, images)
    if not colon:
        raise task_error(_no_such_task(name))
    if not base or not rest:
        raise task_error(f"'{name}' lacks the {'class' if base else 'module'}: write module:Class")
    return _instantiate(_import(base, rest), rest, name)


def name_of(task: Task) -> str:
    """The `module:Class` of an object, by which `load_task` makes another."""
    return f"{type(task).__module__}:{type(task).__name__}"


def _named(base: str, parameter: str, images: ImageSettings | None) -> Task:
    factory = TASKS[base].factory
    if factory is named.image_folder:
        return factory(int(parameter) if parameter else None, images)
    if parameter:
        raise task_error(f"the task {base} takes no number: write {base}, not {base}:{parameter}")
    task = factory()
    return task if images is None else with_images(task, base, images)


def _no_such_task(name: str) -> str:
    near = get_close_matches(name.lower(), TASKS, n=1, cutoff=0.4)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return (
        f"there is no task named '{name}'.{hint} Named tasks: {', '.join(TASKS)}. "
        "Your own is written module:Class, such as my_tasks:Tumours."
    )


def _import(module_name: str, attribute: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
        hasattr(module, attribute)  # where it is imported at first use
        return module
    except Ended:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and (module_name == missing or module_name.startswith(missing + ".")):
            text = f"there is no module '{missing}'. {WHERE}"
            raise saying(TaskError(f"{text}, which is {here}"), text) from error
        text = f"the module '{module_name}' could not be imported: "
        raise saying(TaskError(text + _describe(error)), text + kind_of_fault(error)) from error


def _instantiate(module: ModuleType, attribute: str, name: str) -> Task:
    if not hasattr(module, attribute):
        own = [k for k, v in vars(module).items() if isinstance(v, type)]
        near = get_close_matches(attribute, own, n=1)
        hint = f" Did you mean '{module.__name__}:{near[0]}'?" if near else ""
        raise task_error(f"the module '{module.__name__}' has no '{attribute}'.{hint}")
    factory: Any = getattr(module, attribute)
    if not callable(factory):
        kind = type(factory).__name__
        raise task_error(
            f"'{name}' is an object of type {kind}; name a class, made without arguments"
        )
    try:
        task: Task = factory()
    except (DomoError, Ended):
        raise
    except (Exception, SystemExit) as error:
        text = f"'{name}' could not be made by {attribute}(): "
        raise saying(TaskError(text + _describe(error)), text + kind_of_fault(error)) from error
    lacking = [method for method in NEEDED if not callable(getattr(task, method, None))]
    if lacking:
        raise task_error(f"'{name}' is not a task: it lacks {', '.join(lacking)}")
    return task


def _describe(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code that raised it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return text  # names file and line
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    frames = [f for f in frames if "importlib" not in f.filename]
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text
