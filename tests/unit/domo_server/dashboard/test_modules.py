"""The page's modules find one another; with a wrong import a browser shows no page at all."""

import re
from pathlib import Path

import domo_server.dashboard

STATIC = Path(*domo_server.dashboard.__path__) / "static"
EXPORTED = r"^export (?:default )?(?:async )?(?:function\*?|class|const|let) (\w+)"
IMPORTED = r"^import (?:\w+|\{([^}]*)\}) from \"(\.[^\"]+)\""


def names(listed: str) -> set[str]:
    """What stands between braces, by the names that the other module has."""
    return {name.split(" as ")[0].strip() for name in listed.split(",")} - {""}


def exported(module: Path) -> set[str]:
    text = module.read_text("utf-8")
    again = re.findall(r"^export \{([^}]*)\}", text, re.MULTILINE)
    return {*re.findall(EXPORTED, text, re.MULTILINE), *(n for part in again for n in names(part))}


def test_every_import_of_the_page_is_an_export_of_a_module() -> None:
    faults, seen = [], 0
    for module in sorted(STATIC.rglob("*.js")):
        if "vendor" in module.parts:
            continue
        for listed, where in re.findall(IMPORTED, module.read_text("utf-8"), re.MULTILINE):
            other, seen = (module.parent / where).resolve(), seen + 1
            if not other.is_file():
                faults.append(f"{module.name}: no module {where}")
            elif "vendor" not in other.parts:
                faults += [
                    f"{module.name}: {where} exports no {name}"
                    for name in sorted(names(listed) - exported(other))
                ]
    assert seen > 50
    assert faults == []
