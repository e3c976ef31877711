import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rag_pipeline.chunking.fixed import FixedChunking
from rag_pipeline.config import ChunkingSettings, plugins
from rag_pipeline.config.plugins import CHUNKINGS, VariantsOf, load_group
from rag_pipeline.errors import ConfigError

HALVES = """
from typing import Literal
from rag_pipeline.config import ChunkingSettings

class Halves(ChunkingSettings):
    method: Literal["halves"]
    parts: int = 2

    def spans(self, document, models):
        half = len(document.text) // 2
        return [(0, half), (half, len(document.text))]

VALUE = 7
class Other:
    pass
class Unfinished(ChunkingSettings):
    method: Literal["unfinished"]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, before those of the environment."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    monkeypatch.undo()
    forget()


def install(site: Path, package: str, points: str, code: str = HALVES) -> None:
    (site / f"{package}.py").write_text(code)
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{CHUNKINGS}]\n{points}\n")
    sys.modules.pop(package, None)
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    plugins._installed.cache_clear()
    load_group.cache_clear()


def test_the_built_in_methods_come_in_by_the_same_door():
    assert list(load_group(CHUNKINGS)) == [
        "fixed",
        "given",
        "markdown",
        "recursive",
        "semantic",
        "sentences",
    ]
    assert load_group(CHUNKINGS)["fixed"] is FixedChunking


def test_another_packages_method_stands_beside_them(site):
    install(site, "halving", "halves = halving:Halves")
    union = TypeAdapter(Annotated[ChunkingSettings, VariantsOf(CHUNKINGS, "method")])
    settings: Any = union.validate_python({"method": "halves", "parts": 3})
    assert (type(settings).__name__, settings.parts) == ("Halves", 3)
    assert isinstance(union.validate_python({"method": "fixed"}), FixedChunking)
    with pytest.raises(ValidationError, match="'fixed', 'given', 'halves', 'mark") as error:
        union.validate_python({"method": "thirds"})
    assert error.value.errors()[0]["type"] == "union_tag_invalid"
    schema = union.json_schema()
    assert schema["discriminator"]["mapping"]["halves"] == "#/$defs/Halves"
    assert schema["$defs"]["Halves"]["properties"]["parts"]["default"] == 2


@pytest.mark.parametrize(
    ("points", "code", "message"),
    [
        (
            "halves = halving:Halves",
            "import no_such_package",
            "'halves' of halving (halving:Halves) can't be imported: ModuleNotFoundError: "
            "No module named 'no_such_package'; repair or uninstall the package",
        ),
        (
            "halves = halving:Absent",
            HALVES,
            "'halves' of halving (halving:Absent) can't be imported: AttributeError: ",
        ),
        (
            "halves = halving:Other",
            HALVES,
            "'halves' of halving (halving:Other) is <class 'halving.Other'>, not a "
            "ChunkingSettings",
        ),
        ("halves = halving:VALUE", HALVES, "'halves' of halving (halving:VALUE) is 7, not a Chunk"),
        (
            "unfinished = halving:Unfinished",
            HALVES,
            "'unfinished' of halving (halving:Unfinished): Unfinished does not define spans",
        ),
        (
            "half = halving:Halves",
            HALVES,
            "'half' of halving (halving:Halves): Halves must have the setting `method: "
            'Literal["half"]`, as its entry point is called',
        ),
    ],
)
def test_a_wrong_plugin_is_named_with_its_package(site, points, code, message):
    install(site, "halving", points, code)
    with pytest.raises(ConfigError) as error:
        VariantsOf(CHUNKINGS, "method").classes(ChunkingSettings)
    assert str(error.value).startswith(f"rag_pipeline.chunkings: {message}")


def test_a_name_is_claimed_once(site):
    install(site, "halving", "fixed = halving:Halves")
    with pytest.raises(ConfigError) as error:
        load_group(CHUNKINGS)
    assert "'fixed' of halving (halving:Halves)" in str(error.value)
    assert "'fixed' of rag_pipeline (rag_pipeline.chunking.fixed:Fixed" in str(error.value)
    assert str(error.value).endswith("provide 'fixed'; uninstall one of them")


def test_metadata_of_an_earlier_build_on_the_path_hides_no_entry_point(site):
    folder = site / "rag_pipeline.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: rag_pipeline\nVersion: 0.0.1\n")
    (folder / "entry_points.txt").write_text(
        f"[{CHUNKINGS}]\nfixed = rag_pipeline.chunking.fixed:FixedChunking\n"
    )
    forget()
    assert len(load_group(CHUNKINGS)) == 6


def test_a_group_that_nothing_is_installed_for_asks_for_an_installation():
    with pytest.raises(ConfigError, match=r"rag_pipeline\.none: no entry points .* pip install -e"):
        load_group("rag_pipeline.none")


@pytest.mark.parametrize("name", ["FixedChunking", "GivenChunking", "SemanticChunking"])
def test_settings_are_still_imported_from_config(name):
    from rag_pipeline import config

    assert issubclass(getattr(config, name), ChunkingSettings)
    with pytest.raises(AttributeError, match="no attribute 'NoChunking'"):
        _ = config.NoChunking
