"""The documentation against the code: what is named in one is in the other."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from pydantic import BaseModel

import domo.commands.main
import domo_client.cli
import domo_server.cli
from domo import errors
from domo.inputs.images import ImageSettings
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo_proto.codec import VectorId
from domo_proto.errors import STATUS_OF
from domo_proto.v1 import federation_pb2 as pb
from domo_server.config import (
    FederationFile,
    ServerConfig,
    TlsConfig,
    TrackersConfig,
    WebhookConfig,
)
from domo_server.rounds.state import TRANSITIONS, Phase, Signal
from domo_server.rpc.data import DataServicer, data_handlers
from tests.support.live.day_faults import FAULTS
from tests.unit.domo_proto.test_codec import VECTOR_FRAME

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """Cells of every table row."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# protocol.md


def states() -> str:
    """The table and the diagram of a run's states."""
    phases = list(Phase)
    table = ["| state | signal | next |", "|---|---|---|"]
    arrows = ["```mermaid", "stateDiagram-v2", "    [*] --> WAITING"]
    ends: dict[tuple[Phase, Signal], list[Phase]] = {}
    for (phase, signal), after in sorted(
        TRANSITIONS.items(), key=lambda t: (phases.index(t[0][0]), list(Signal).index(t[0][1]))
    ):
        table.append(f"| {phase.value} | {signal.value} | {after.value} |")
        if signal in (Signal.STOP, Signal.FAIL):
            ends.setdefault((after, signal), []).append(phase)
        else:
            arrows.append(f"    {phase.value} --> {after.value}: {signal.value}")
    for (after, signal), before in ends.items():
        names = ", ".join(p.value for p in before)
        arrows.append(f"    note right of {after.value}: {signal.value}, from {names}")
    finished = [p for p in Phase if p not in {p for p, _ in TRANSITIONS}]
    arrows += [f"    {p.value} --> [*]" for p in finished]
    return "\n".join([*arrows, "```", "", *table])


def test_the_states_are_those_of_the_code() -> None:
    written = page("protocol.md").split("<!-- states -->\n")[1].split("\n<!-- /states -->")[0]
    assert written == states(), f"put this between the markers:\n{states()}"


def test_every_rpc_is_described() -> None:
    text = page("protocol.md")
    control = set(pb.DESCRIPTOR.services_by_name["Federation"].methods_by_name)
    handlers = data_handlers(DataServicer.__new__(DataServicer))
    data = {name.rsplit("/", 1)[1] for name in handlers._method_handlers}
    assert data == {"FetchRound", "SubmitUpdate"}
    first = {c for row in rows(text) for c in codes(row[0])}
    assert control | data <= first
    for rpc in sorted(control - {"Decline", "Leave"}):
        assert f"**`{rpc}`.**" in text, f"{rpc} has no paragraph"
    for rpc in data:
        assert f"### `{rpc}`" in text


def test_every_message_field_with_a_meaning_is_named() -> None:
    """Fields that every message has, and those whose name says all, are left out."""
    plain = {"session", "run_id", "device", "reason", "text", "id", "offer"}
    plain |= {"bytes_sent", "bytes_received", "step", "phase", "config_digest", "loss", "vectors"}
    text = page("protocol.md")
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            if field.name not in plain:
                assert re.search(rf"\b{field.name}\b", text), f"{message.name}.{field.name}"


@pytest.mark.parametrize("enum", ["Role", "Action", "UploadState", "Directive"])
def test_every_value_of_an_enum_is_named(enum: str) -> None:
    text = page("protocol.md")
    for value in pb.DESCRIPTOR.enum_types_by_name[enum].values:
        if value.number:
            assert f"`{value.name}`" in text, value.name


def test_the_vectors_are_those_of_the_codec() -> None:
    table = {
        int(r[0]): r[1].strip("`")
        for r in rows(page("protocol.md"))
        if r[0].isdigit() and len(r) == 4
    }
    assert table == {v.value: v.name for v in VectorId}


def test_the_test_vector_is_that_of_the_codec_test() -> None:
    block = page("protocol.md").split("Test vector:")[1].split("```")[1]
    assert bytes.fromhex(block) == VECTOR_FRAME


def test_the_error_table_is_that_of_the_code() -> None:
    text = page("protocol.md").split("## Errors")[1].split("\n## ")[0]
    table = {r[0].strip("`"): r[1].strip("`") for r in rows(text) if r[0].startswith("`")}
    assert table == {cls.__name__: code.name for cls, code in STATUS_OF.items()}
    tried = text.split("any status that")[0].rsplit("\n\n", 1)[1]
    listed = set(codes(tried))
    assert listed == {cls.__name__ for cls in STATUS_OF if cls.retryable}


def test_the_error_tree_names_every_class() -> None:
    classes = {
        n
        for n, c in vars(errors).items()
        if isinstance(c, type) and issubclass(c, errors.DomoError)
    }
    assert classes <= set(re.findall(r"\w+", errors.__doc__ or ""))


# configuration.md


def described(heading: str) -> dict[str, list[str]]:
    """Key -> cells of the tables under a heading."""
    text = page("configuration.md").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {codes(r[0])[0]: r for r in rows(text) if codes(r[0])}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("`[server]`", ServerConfig),
        ("`[server.tls]`", TlsConfig),
        ("`[server.trackers]`", TrackersConfig),
        ("`[[server.webhooks]]`", WebhookConfig),
        ("`[[runs]]`", RunConfig),
        ("`[runs.images]`", ImageSettings),
    ],
)
def test_every_key_is_described_with_its_default(heading: str, model: type[BaseModel]) -> None:
    told = described(heading)
    assert list(told) == list(model.model_fields), "the same keys in the same order"
    for name, field in model.model_fields.items():
        cell = told[name][1]
        if field.is_required():
            assert cell == "required", name
        elif field.default_factory is None and field.default is not None:
            assert codes(cell) == [toml(field.default)], name
        else:
            assert cell, name
        assert told[name][2], f"{name} has no meaning"


def toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def test_the_example_is_a_good_file() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", page("configuration.md"), re.S)
    assert blocks
    for block in blocks:
        file = validate(FederationFile, tomllib.loads(block), "docs/configuration.md")
        validate(ServerConfig, file.server, "docs/configuration.md")


# cli.md


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for sub_name, sub in getattr(command, "commands", {}).items():
        if not sub.hidden:
            yield from commands(sub, f"{name} {sub_name}")


APPS = {
    "domo": domo.commands.main.app,
    "domo-server": domo_server.cli.app,
    "domo-client": domo_client.cli.app,
}
ALL = [c for name, app in APPS.items() for c in commands(typer.main.get_command(app), name)]
ALL_COMMANDS = [
    (name, c) for name, c in ALL if name not in ("domo", "domo data", "domo experiment")
]


@pytest.mark.parametrize(("name", "command"), ALL_COMMANDS, ids=[n for n, _ in ALL_COMMANDS])
def test_every_command_and_flag_is_described(name: str, command: click.Command) -> None:
    text = page("cli.md")
    match = re.search(rf"^##+ `{name}( [A-Z_]+)?`\n(.*?)(?=^##|\Z)", text, re.S | re.M)
    assert match, f"{name} has no heading"
    told = {c.split()[0]: r for r in rows(match[2]) for c in codes(r[0])}
    if "Takes every flag of `domo-client`" in match[2]:
        shared = text.split("\n## `domo-client`\n")[1].split("\n## ")[0]
        told |= {c.split()[0]: r for r in rows(shared) for c in codes(r[0])}
    for parameter in command.params:
        flags = [o for o in parameter.opts if o.startswith("--")]
        hidden = {"--help", "--version", "--install-completion", "--show-completion"}
        for flag in flags:
            if flag in hidden:
                continue
            assert flag in told, f"{name} {flag}"
            variables = {parameter.envvar} if parameter.envvar else set()
            assert variables <= set(codes(" ".join(told[flag]))), f"{name} {flag}: {variables}"
    known = {o for p in command.params for o in p.opts}
    assert {f for f in told if f.startswith("--")} <= known, "a flag that is not there"


def test_what_the_loop_api_takes_of_a_loop_is_what_the_example_uses() -> None:
    """The sentence that sells it names each call, and no number of them."""
    text = page("bring-your-model.md")
    sentence = text.split("- the **loop API**:")[1].split("\n\n")[0]
    tree = ast.parse((DOCS.parent / "examples" / "own_loop.py").read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("domo_client", "silo", "rnd")
    }
    assert set(codes(sentence)) == used - {"Outcome", "num_steps"}


# all pages

ROOT = DOCS.parent
PAGES = sorted(
    [p for p in ROOT.glob("*.md") if p.name != "CHANGELOG.md"] + list(DOCS.rglob("*.md"))
)


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def test_each_fault_of_a_day_has_its_story() -> None:
    """`make day` draws from that table; what people see of each fault is in docs/failures.md."""
    section = page("failures.md").partition("## What one sees\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows[1:] == [fault.name for fault in FAULTS]
