import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rag_pipeline import imports
from rag_pipeline.chunking.fixed import FixedChunking
from rag_pipeline.config import ChunkingSettings
from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import ChatName, EmbeddingName, Settings
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.scores import all_metrics
from rag_pipeline.imports import CHUNKINGS, load_group

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
class Undefined(Halves):
    method: Literal["undefined"]
    of: "Absent"
class Unknown(Halves):
    method: Literal["unknown"]
    of: Other
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
    imports._installed.cache_clear()
    imports._load.cache_clear()
    imports.warn_once.cache_clear()


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


CHUNKING: Any = Annotated[ChunkingSettings, VariantsOf(CHUNKINGS, "method")]


def refusal(method: str) -> str:
    """Return why a corpus file that names a method is refused."""
    with pytest.raises(ValidationError) as error:
        TypeAdapter(CHUNKING).validate_python({"method": method})
    (mistake,) = error.value.errors()
    return mistake["msg"]


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
            "halves = halving:Halves",
            "raise SystemExit('no licence')",
            "'halves' of halving (halving:Halves) can't be imported: SystemExit: no licence; ",
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
            'Literal["half"]`, the name of its entry point',
        ),
    ],
)
def test_a_wrong_plugin_is_named_with_its_package(site, points, code, message):
    install(site, "halving", points, code)
    assert refusal(points.split(" = ")[0]).startswith(f"rag_pipeline.chunkings: {message}")
    union = TypeAdapter(CHUNKING)
    assert isinstance(union.validate_python({"method": "fixed"}), FixedChunking)
    assert "FixedChunking" in union.json_schema()["$defs"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("undefined", "Undefined: name 'Absent' is not defined"),
        ("unknown", "Unknown: Unable to generate pydantic-core schema for <class 'halving.Other'>"),
    ],
)
def test_a_setting_whose_type_is_not_understood_is_named_with_its_package(site, name, message):
    install(site, "halving", f"{name} = halving:{name.title()}")
    place = f"rag_pipeline.chunkings: '{name}' of halving (halving:{name.title()}): "
    assert refusal(name).startswith(place + message)


METRICS_OF_ITS_OWN = """
from typing import Literal
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.metrics import Metric, RankingMetric

of_rankings = RankingMetric(name="P@5", definition="", measure=len, needs="chunks")
of_nothing = 7
class of_answers(AnswerScore):
    score: Literal["one"]
    metrics = (Metric(name="nDCG@10", definition="", measure=len),)
class without(AnswerScore):
    score: Literal["one"]
"""


@pytest.mark.parametrize(
    ("group", "what", "message"),
    [
        ("metrics", "of_rankings", ": a metric 'P@5' exists already; give it another name"),
        ("metrics", "of_nothing", " provides 7, not a RankingMetric"),
        ("answer_scores", "of_answers", ": a metric 'nDCG@10' exists already; give it another"),
        ("answer_scores", "without", " provides None, not a Metric"),
    ],
)
def test_a_wrong_metric_is_named_with_its_package_and_left_out(site, group, what, message, caplog):
    before = list(all_metrics())
    install(site, "own", f"[rag_pipeline.{group}]\none = own:{what}", METRICS_OF_ITS_OWN)
    assert list(all_metrics()) == before
    (line,) = caplog.messages
    assert line.startswith(f"rag_pipeline.{group}: 'one' of own (own:{what}){message}")


def test_names_in_lists_and_mappings_are_looked_up_too():
    class Team(Settings):
        chats: list[ChatName]
        by_language: dict[str, tuple[EmbeddingName, ...]]

    class Method(Settings):
        teams: dict[str, Team]

    team = {"chats": ["small", "large"], "by_language": {"de": ["e5"]}}
    assert list(Method.model_validate({"teams": {"first": team}}).names()) == [
        ("teams.first.chats.0", "chats", "small"),
        ("teams.first.chats.1", "chats", "large"),
        ("teams.first.by_language.de.0", "embeddings", "e5"),
    ]


def test_a_name_of_this_package_keeps_its_method(site, caplog):
    install(site, "halving", "fixed = halving:Halves")
    assert load_group(CHUNKINGS)["fixed"] is FixedChunking
    (line,) = caplog.messages
    assert "'fixed' of halving (halving:Halves)" in line
    assert "'fixed' of rag_pipeline (rag_pipeline.chunking.fixed:Fixed" in line
    assert line.endswith("provide 'fixed'; uninstall one of them")


def test_a_name_of_two_packages_is_refused_where_it_is_used(site):
    install(site, "halving", "halves = halving:Halves")
    install(site, "cutting", "halves = cutting:Halves")
    assert refusal("halves").endswith("provide 'halves'; uninstall one of them")
    assert isinstance(TypeAdapter(CHUNKING).validate_python({"method": "fixed"}), FixedChunking)


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
