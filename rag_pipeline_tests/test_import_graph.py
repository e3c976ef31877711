"""Every import in the product points down the layers, also inside functions and for types alone."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "rag_pipeline"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in (ROOT / PACKAGE).rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Yield the product's modules that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in FILES)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                inner = [f"{module}.{alias.name}" for alias in names]
                found = [name if name in FILES else module for name in inner]
                yield from (name for name in found if name in FILES)
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno}: a relative import")
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module")):
                written = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
                yield from (name for name in written if name in FILES)


@cache
def graph() -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    return {module: set(imported(path)) - {module} for module, path in FILES.items()}


def room(module: str) -> str:
    """Return the part of the package that a module belongs to, "" for the package itself."""
    return module.split(".")[1] if "." in module else ""


TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
(CONTRACT,) = (c for c in TOOLS["importlinter"]["contracts"] if c["type"] == "layers")


def layers() -> dict[str, int]:
    """Return each room's layer, 0 for the highest, as the import contract lists them."""
    rows = enumerate(CONTRACT["layers"])
    return {name.strip(): number for number, row in rows for name in row.split("|")}


def test_no_import_points_up_the_layers() -> None:
    # Therefore no circle of imports covers more than one room, but for `Corpus.ask`.
    layer = {"": -1, "defs": -1, **layers()}
    upward = [
        f"{module} -> {other}"
        for module, others in graph().items()
        for other in others
        if room(module) != room(other) and layer[room(other)] <= layer[room(module)]
    ]
    assert upward == CONTRACT["ignore_imports"] == ["rag_pipeline.corpus -> rag_pipeline.assistant"]


def test_settings_and_models_have_no_circle() -> None:
    # Raises CycleError with the circle.
    rooms = ("config", "models")
    inner = {m: {o for o in others if room(o) in rooms} for m, others in graph().items()}
    TopologicalSorter({m: inner[m] for m in inner if room(m) in rooms}).prepare()
