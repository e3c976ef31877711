from dataclasses import replace

import pytest

from rag_pipeline import Corpus
from rag_pipeline.cli.why import totals
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.release.causes import Cause, Change, causes
from rag_pipeline.release.compared_builds import open_build
from rag_pipeline_tests.testing.command_line import rag, said
from rag_pipeline_tests.testing.planted_changes import KINDS, plant

ACME, HOTEL = "nda/acme.txt", "policy/travel.md"


@pytest.mark.parametrize("kind", KINDS)
def test_the_planted_change_is_named_with_its_document(released: Corpus, kind: str) -> None:
    """A second document changes too; it answers no query."""
    workspace = released.workspace
    before = open_build(workspace, "plain" if kind == "embedding" else "default")
    after = plant(workspace, before, kind, ACME)
    after = plant(workspace, after, "chunk", HOTEL, "after")
    (found,) = causes(workspace, before, after, ["q1"], k=1)
    first = 2 if kind == "embedding" else 1  # `plain` finds the clause of another document first
    assert (found.better, found.worse, found.rank_better) == (before.name, "after", first)
    assert (found.change, found.where) == (kind, ACME)


def test_a_changed_setting_is_named_with_its_values(released: Corpus) -> None:
    workspace = released.workspace
    before = plant(workspace, open_build(workspace, "plain"), "embedding", ACME, "before")
    one = before.settings.retriever.model_copy(update={"k": 1})
    settings = before.settings.model_copy(update={"retriever": one})
    after = replace(before, name="after", settings=settings)
    (found,) = causes(workspace, before, after, ["q1"], k=5)
    assert (found.better, found.worse, found.rank_worse) == ("before", "after", None)
    assert (found.change, found.where) == ("retriever", "retriever.k: 20 -> 1")


def test_equal_builds_have_no_cause(released: Corpus) -> None:
    workspace = released.workspace
    build = open_build(workspace, "default")
    (found,) = causes(workspace, build, replace(build, name="again"), ["q1"])
    assert found.change == "none"
    assert found.sentence.endswith("both find it at the same rank")


def test_a_missing_release_is_named(released: Corpus) -> None:
    with pytest.raises((StoreError, ConfigError), match="release-000009"):
        next(causes(released.workspace, "release-000009", "default", ["q1"]))


def test_the_command_names_the_cause(released: Corpus) -> None:
    file = released.config.where
    told = said("why", "q1", file, "--of", "default", "--against", "plain")
    assert "default: rank" in told
    assert "default: rank 1, plain: rank 2" in said("why", "q1", file, "--of", "plain")
    unknown = rag("why", "q11", file)
    assert unknown.code == 2
    assert "no query 'q11'; did you mean 'q1'?" in unknown.err
    assert rag("compare", "default", "plain", file, "--why").code == 0


def test_causes_are_counted_by_change_and_build() -> None:
    found = [
        cause("b", "chunk", "one.txt"),
        cause("b", "chunk", "two.txt"),
        cause("b", "chunk", "two.txt"),
        cause("b", "retriever", "hybrid -> dense"),
        cause("a", "several"),
    ]
    assert totals(found) == [
        "3 better in b: its chunks changed (2 documents)",
        "1 better in b: the retriever's settings changed (hybrid -> dense)",
        "1 better in a: only several changes together make the difference",
    ]


def cause(better: str, change: Change, where: str = "") -> Cause:
    worse = "a" if better == "b" else "b"
    return Cause(
        query_id="q1",
        better=better,
        worse=worse,
        rank_better=1,
        rank_worse=9,
        change=change,
        where=where,
    )
