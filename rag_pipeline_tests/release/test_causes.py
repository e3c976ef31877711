from dataclasses import replace

import pytest

from rag_pipeline import Corpus
from rag_pipeline.cli.why import counted
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.release.causes import Cause, causes, causes_between
from rag_pipeline.release.reruns import open_side
from rag_pipeline_tests.testing.command_line import rag, said
from rag_pipeline_tests.testing.planted_changes import KINDS, plant

ACME, HOTEL = "nda/acme.txt", "policy/travel.md"


@pytest.mark.parametrize("kind", KINDS)
def test_the_planted_change_is_named_with_its_document(released: Corpus, kind: str) -> None:
    """Another document is changed, too, which answers nothing that is asked."""
    workspace = released.workspace
    before = open_side(workspace, "plain" if kind == "embedding" else "default")
    after = plant(workspace, before, kind, ACME)
    after = plant(workspace, after, "chunk", HOTEL, "after")
    (found,) = causes_between(workspace, before, after, ["q1"], k=1)
    assert (found.better, found.worse, found.rank_better) == (before.name, "after", 1)
    assert (found.change, found.where) == (kind, ACME)


def test_a_changed_setting_is_named_with_its_values(released: Corpus) -> None:
    workspace = released.workspace
    before = plant(workspace, open_side(workspace, "plain"), "embedding", ACME, "before")
    one = before.settings.retriever.model_copy(update={"top_k": 1})
    settings = before.settings.model_copy(update={"retriever": one})
    after = replace(before, name="after", settings=settings)
    (found,) = causes_between(workspace, before, after, ["q1"], k=5)
    assert (found.better, found.worse, found.rank_worse) == ("before", "after", None)
    assert (found.change, found.where) == ("retriever", "retriever.top_k: 20 -> 1")


def test_what_is_the_same_has_no_cause(released: Corpus) -> None:
    workspace = released.workspace
    side = open_side(workspace, "default")
    (found,) = causes_between(workspace, side, replace(side, name="again"), ["q1"])
    assert found.change == "none"
    assert found.sentence.endswith("both find it at the same rank")


def test_sides_that_are_not_there_are_named(released: Corpus) -> None:
    with pytest.raises((StoreError, ConfigError), match="release-000009"):
        causes(released.workspace, "release-000009", "default", ["q1"])


def test_the_command_names_the_cause(released: Corpus) -> None:
    file = released.config.where
    told = said("why", "q1", file, "--of", "default", "--against", "plain")
    assert "default: rank" in told
    unknown = rag("why", "q11", file)
    assert unknown.code == 2
    assert "no query 'q11'; did you mean 'q1'?" in unknown.err
    assert rag("compare", "default", "plain", file, "--why").code == 0


def test_causes_are_counted_by_what_changed_and_on_which_side() -> None:
    found = [Cause("q1", "b", "a", 1, 9, "chunk", "one.txt"),
             Cause("q2", "b", "a", 1, 9, "chunk", "two.txt"),
             Cause("q3", "b", "a", 1, 9, "chunk", "two.txt"),
             Cause("q4", "b", "a", 1, 9, "retriever", "hybrid -> dense"),
             Cause("q5", "a", "b", 1, 9, "several")]  # fmt: skip
    assert counted(found) == [
        "3 better in b: it is chunked otherwise (2 documents)",
        "1 better in b: the retriever is set otherwise (hybrid -> dense)",
        "1 better in a: only several changes together make the difference",
    ]
