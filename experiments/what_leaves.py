"""What one update gives away, and what a silo's policy does about it, on the digits.

    python experiments/what_leaves.py --picture docs/what-leaves.png

An update of one local step on one image (FedAvg, no momentum) is what a silo would send. Two
attacks that need nothing but that update and the model: a linear first layer is read off (each row
of its gradient is the image, times a number that is in the gradient of its bias); for the CNN an
image is sought whose gradient points the same way (Geiping et al., 2020: cosine, Adam). Then the
same after `clip` and `noise` of a policy, and what these cost: the test accuracy of whole runs with
real silos.
"""

import argparse
import math
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

import domo_client
from domo import Coordinator, RunConfig
from domo.ops.console import console, say
from domo.tasks.datasets import digits
from domo.tasks.models import small_cnn
from domo_client.agent import run_agent
from domo_client.observe.messages import Ui
from domo_client.policy.secret import Secret
from domo_client.work import AgentOptions
from domo_server import testing

CLASSES, SAMPLES = 10, 719
"""Training images of a silo with half of the digits: among them the right one is sought."""
LOW, HIGH = -0.82, 1.85
"""Between these all values of the standardised images are, as `local_images` sees to."""
CHOSEN = (0, 1, 2, 3)
STEP_SIZE, EXACT = 0.05, 0.1
"""Of SGD; and how far apart two images that are the same may be: rmse, in standard deviations."""
MANY = ((1, 1), (1, 8), (1, 32), (12, 1), (12, 32), (23, 32))
"""Steps and batch of updates of many images."""
SETTINGS = ((None, None), (1.0, 0.001), (1.0, 0.01), (1.0, 0.1))
"""clip and noise of a policy."""
RUNS = ((None, None), (1.0, 0.001), (1.0, 0.01), (1.0, 0.1), (0.1, 0.1))
"""The same of whole runs, where d_k is a mean over the steps of a round, and has a norm below 1."""


Attack = Callable[[nn.Module, Tensor], Tensor]


class Read(NamedTuple):
    """What an attack came to.

    Attributes:
        image: What it has found.
        psnr: Of it, in dB.
        identified: Whether the right image is the nearest of all.
    """

    image: Tensor
    psnr: float
    identified: bool


def mlp() -> nn.Module:
    """64 inputs, 64 hidden units, 10 classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def cnn() -> nn.Module:
    """The model of the task `digits`."""
    return small_cnn(1, 8, CLASSES)


def update_of(model: nn.Module, image: Tensor, label: Tensor) -> Tensor:
    """d_k of one step on one image: its gradient.

    Args:
        model: x_r.
        image: Shape (1, 1, 8, 8).
        label: Shape (1,).
    """
    model.zero_grad()
    cross_entropy(model(image), label).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone()


def parts(model: nn.Module, update: Tensor) -> list[Tensor]:
    """An update, tensor by tensor."""
    sizes = [p.numel() for p in model.parameters()]
    split = zip(update.split(sizes), model.parameters(), strict=True)
    return [piece.view_as(p) for piece, p in split]


def read_off(model: nn.Module, update: Tensor) -> Tensor:
    """The image in the update of a linear first layer: a row of dW over that entry of db."""
    weight, bias = parts(model, update)[:2]
    row = int(bias.abs().argmax())
    return (weight[row] / bias[row]).view(1, 1, 8, 8)


def match(model: nn.Module, update: Tensor, steps: int, starts: int) -> Tensor:
    """The image whose gradient points most as the update does."""
    wanted = parts(model, update)
    label = wanted[-1].argmin().view(1)  # the gradient of its bias is the only one below 0
    best, found = -math.inf, torch.zeros(1, 1, 8, 8)
    for seed in range(starts):
        source = torch.Generator().manual_seed(seed)
        x = torch.randn((1, 1, 8, 8), generator=source).clamp_(LOW, HIGH).requires_grad_()
        adam = torch.optim.Adam([x], lr=0.05)
        for step in range(steps):
            loss = cross_entropy(model(x), label)
            grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
            far = 1 - _cosine(grads, wanted)
            adam.zero_grad()
            far.backward()
            adam.step()
            with torch.no_grad():
                x.clamp_(LOW, HIGH)
            if step == steps * 3 // 4:
                adam.param_groups[0]["lr"] /= 10
        if (near := -far.item()) > best:
            best, found = near, x.detach().clone()
    return found


def _cosine(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    flat = [torch.cat([t.flatten() for t in many]) for many in (a, b)]
    return cosine_similarity(flat[0], flat[1], dim=0)


def judge(image: Tensor, right: int, images: Tensor) -> Read:
    """How near an image is to the right one of many."""
    image = image.nan_to_num(0).clamp(LOW, HIGH)
    mse = float((image - images[right]).square().mean())
    psnr = 10 * math.log10((HIGH - LOW) ** 2 / max(mse, 1e-20))
    near = torch.corrcoef(torch.cat((image.view(1, -1), images.flatten(1))))[0, 1:]
    return Read(image, psnr, int(near.nan_to_num(-1).argmax()) == right)


def attacked(
    model: nn.Module,
    attack: Attack,
    chosen: Sequence[int],
    clip: float | None = None,
    noise: float | None = None,
) -> list[Read]:
    """What an attack reads out of the updates of some images.

    Args:
        model: x_r.
        attack: What it does with the model and an update.
        chosen: Which images.
        clip: Of a policy.
        noise: Likewise.
    """
    images, labels = local_images()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        secret = Secret(Path(folder))
        for i in chosen:
            update = update_of(model, images[i : i + 1], labels[i : i + 1])
            if clip is not None:
                secret.protect(update, clip, noise)
            found.append(judge(attack(model, update), i, images))
    return found


def local_images() -> tuple[Tensor, Tensor]:
    """The training images of a silo, and their labels."""
    train = digits().train
    images, labels = train.inputs[:SAMPLES], train.labels
    assert LOW <= float(images.min()) <= float(images.max()) <= HIGH
    return images, labels[:SAMPLES]


def local_update(model: nn.Module, steps: int, batch: int, seed: int) -> Tensor:
    """d_k of plain SGD on the silo's images, in the units of gradients; the model is changed."""
    images, labels = local_images()
    source = torch.Generator().manual_seed(seed)
    order = torch.cat([torch.randperm(SAMPLES, generator=source) for _ in range(2)])
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    sgd = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    for step in range(steps):
        chosen = order[step * batch : (step + 1) * batch]
        sgd.zero_grad()
        cross_entropy(model(images[chosen]), labels[chosen]).backward()
        sgd.step()
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    return (before - after) / STEP_SIZE


def sorting(units: int) -> nn.Module:
    """A wide first layer that sorts images by their brightness: what a coordinator may choose."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, units), nn.ReLU(), nn.Linear(units, CLASSES))
    brightness = digits().test.inputs.flatten(1).mean(1)  # of images of the same kind
    with torch.no_grad():
        model[1].weight.fill_(1 / 64)
        model[1].bias.copy_(-torch.quantile(brightness, torch.linspace(0, 1, units)))
        model[3].weight.copy_(torch.linspace(-0.1, 0.1, CLASSES).view(-1, 1).expand(-1, units))
    return model


def come_back(model: nn.Module, steps: int, batch: int, seed: int, sorts: bool) -> int:
    """How many of the silo's images come back exactly from an update of many of them."""
    images = local_images()[0].flatten(1)
    first = [p.detach().clone() for p in model.parameters()]
    update = local_update(model, steps, batch, seed)
    weight, bias = (update[: 64 * len(first[1])].view(-1, 64), update[64 * len(first[1]) :])
    bias = bias[: len(weight)]
    if sorts:  # what two neighbours differ by is of the images between them
        weight, bias = weight[:-1] - weight[1:], bias[:-1] - bias[1:]
    there = bias.abs() > 1e-12
    found = weight[there] / bias[there, None]
    near = torch.cdist(found, images) / 8 < EXACT
    return int(near.any(0).sum())


def accuracy(settings: dict[str, object], policy: str) -> float:
    """Test accuracy of a run of four real silos with a policy, in per cent."""
    config = RunConfig(task="digits", num_silos=4, **settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "policy.toml").write_text(policy)

        def silo(k: int) -> None:
            options = AgentOptions(
                None, (k, 4), (), torch.device("cpu"), None, 0, "trainer", folder
            )
            given = {"state_dir": folder / str(k), "policy": folder / "policy.toml"}
            with domo_client.connect(server.address, f"silo-{k}", **given) as joined:
                run_agent(joined, options, Ui(["domo-client"]), once=True)

        console.quiet = True  # the silos' own lines
        with testing.coordinator(config) as server:
            silos = [threading.Thread(target=silo, args=(k,)) for k in range(4)]
            for thread in silos:
                thread.start()
            for thread in silos:
                thread.join()
            with Coordinator(server.url, server.token) as rest:
                history = rest.run(server.run_ids[0]).wait(timeout_s=60).history()
    console.quiet = False
    return 100 * float(history.to_pandas()["test_accuracy"].iloc[-1])


def policy_of(clip: float | None, noise: float | None) -> str:
    """A policy file for these trials."""
    lines = ["min_batch = 1", "min_samples_per_update = 1"]
    lines += [f"clip = {clip}"] if clip is not None else []
    lines += [f"noise = {noise}"] if noise is not None else []
    return "\n".join(lines)


def named(clip: float | None, noise: float | None) -> str:
    """A setting in words."""
    if clip is None:
        return "as it is"
    return f"clip {clip:g}" + (f", noise {noise:g}" if noise is not None else "")


def draw(path: Path, rows: dict[str, list[Read]]) -> None:
    """The images that were found, below the right ones."""
    import matplotlib.pyplot as plt

    images = local_images()[0]
    shown = {"the silo's images": [images[i] for i in CHOSEN]}
    shown |= {name: [read.image for read in found] for name, found in rows.items()}
    figure, axes = plt.subplots(
        len(shown), len(CHOSEN), figsize=(1.3 * len(CHOSEN) + 2.2, 1.3 * len(shown))
    )
    for row, (name, found) in zip(axes, shown.items(), strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
        for ax, image in zip(row, found, strict=True):
            ax.imshow(image.view(8, 8), cmap="gray_r", vmin=LOW, vmax=HIGH)
            ax.set_xticks([])
            ax.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    """Print the tables; draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where the images that were found are drawn")
    parser.add_argument("--steps", type=int, default=1200, help="of Adam, for the CNN")
    parser.add_argument("--starts", type=int, default=6, help="of the search, for the CNN")
    args = parser.parse_args()
    torch.set_num_threads(1)
    attacks: dict[str, tuple[nn.Module, Attack]] = {}
    torch.manual_seed(0)
    attacks["linear first layer"] = mlp(), read_off
    attacks["CNN"] = cnn(), lambda model, d: match(model, d, args.steps, args.starts)
    drawn: dict[str, list[Read]] = {}
    say("| model | update | PSNR of each image, dB | right image is the nearest of 719 |")
    say("|---|---|---|---:|")
    for name, (model, attack) in attacks.items():
        for clip, noise in SETTINGS:
            found = attacked(model, attack, CHOSEN, clip, noise)
            drawn[f"{name},\n{named(clip, noise)}"] = found
            psnr = ", ".join(f"{read.psnr:.1f}" for read in found)
            good = sum(read.identified for read in found)
            say(f"| {name} | {named(clip, noise)} | {psnr} | {good} of {len(found)} |")
    say("\n| steps | batch | samples | honest weights | chosen, 64 units | chosen, 1,024 units |")
    say("|---:|---:|---:|---:|---:|---:|")
    for steps, batch in MANY:
        means = []
        for units in (None, 64, 1024):
            counts = []
            for seed in range(3):
                torch.manual_seed(seed)
                model = mlp() if units is None else sorting(units)
                counts.append(come_back(model, steps, batch, seed, units is not None))
            means.append(statistics.mean(counts))
        told = " | ".join(f"{mean:.1f}" for mean in means)
        say(f"| {steps} | {batch} | {min(steps * batch, SAMPLES)} | {told} |")
    if args.picture is not None:
        draw(args.picture, drawn)
    say("\n| policy | accuracy of FedAvg, % | of DOMO, % |\n|---|---:|---:|")
    for clip, noise in RUNS:
        given = {"num_rounds": 15, "local_epochs": 2.0}
        by = [
            accuracy({**given, "method": method}, policy_of(clip, noise))
            for method in ("FedAvg", "DOMO")
        ]
        say(f"| {named(clip, noise)} | {by[0]:.1f} | {by[1]:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
