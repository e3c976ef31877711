"""Stores that earlier versions built: they are read as they are, and little is made anew.

Each archive is a corpus folder that `rag run` of that version left: documents, queries, corpus
file and store. Its configurations are a plain one, one with MaxSim and one searched in stages.
"""

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rag_pipeline.corpus import Corpus
from rag_pipeline.models.providers.minilm import MiniLM, MiniLMTokens
from rag_pipeline_tests.testing.command_line import rag, said

FOLDER = Path(__file__).parent / "earlier_stores"
_OTHERWISE = "settings or code changed"
_EACH_OTHERWISE = "4 documents (settings or code changed)"
CHANGED = "| between Acme Rockets Inc. and Birch Paper Ltd. on 3 May 2021. |"
"""Stands in the contexts of one document, where it ended at "Inc." in earlier versions."""
MADE_ANEW: dict[str, dict[str, str]] = {
    "0_1_0": {
        # Parties are named in full in structural contexts.
        "contextualized_chunks recursive_150.structural": _EACH_OTHERWISE,
        "vector_index recursive_150.structural.minilm": _EACH_OTHERWISE,
        "lexical_index recursive_150.structural": "contextualized_chunks changed",
        # The words that name a document are found wherever they stand in a question, and a search
        # in stages ranks as the single pass does: MaxSim over scaled scores.
        "retrieval_run default": "vector_index, lexical_index changed",
        "answer_presence default": "retrieval_run changed",
        "retrieval_run staged": "vector_index, lexical_index changed",
        "answer_presence staged": "retrieval_run changed",
        # Gold that a chunking destroyed is counted as not found.
        "answer_presence plain": _OTHERWISE,
        # Answers have another form.
        "answers default": "retrieval_run changed",
        "answers plain": _OTHERWISE,
        "answers staged": "retrieval_run changed",
        **{f"entity_scores {name}": "answers changed" for name in ("default", "plain", "staged")},
        "context_scores default": "retrieval_run, answers changed",
        "context_scores plain": "answers changed",
        "context_scores staged": "retrieval_run, answers changed",
        "leaderboard": "answer_presence, entity_scores, context_scores changed",
        "release": "leaderboard changed",
    }
}
"""The steps that this version makes anew in the store of an earlier one, and why."""

pytestmark = pytest.mark.parametrize("version", MADE_ANEW)


@pytest.fixture
def file(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the corpus file of an unpacked store."""
    with tarfile.open(FOLDER / f"{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tiny.yaml"


def test_every_archive_is_tested(version: str) -> None:
    assert {f"{name}.tar.xz" for name in MADE_ANEW} == {path.name for path in FOLDER.iterdir()}


def test_its_release_is_served(version: str, file: Path) -> None:
    corpus = Corpus.load(file)
    assert corpus.release().release_id == "release-000001"
    assert [release.configuration for release in corpus.releases()] == ["default"]
    for query, document in (
        ("Which law governs the agreement with Dune Sand?", "nda/cedar.txt"),
        ("How expensive may a hotel be?", "policy/travel.md"),
    ):
        assert corpus.search(query, k=1)[0].document_id == document
    shown = said("ask", "How expensive may a hotel be?")
    assert "at most 180 euros a night" in shown


def test_its_evaluation_is_read(version: str, file: Path) -> None:
    board = Corpus.load(file).leaderboard()
    assert {row["name"] for row in board["configurations"]} == {"default", "staged", "plain"}
    assert all(row["metrics"]["AnswerPresence@5"]["mean"] == 1.0 for row in board["configurations"])
    for arguments in (
        ["compare", "default", "release-000001"],
        ["explain", "q1"],
        ["report", "-o", "page.html"],
        ["doctor"],
        ["gc", "--dry-run"],
    ):
        outcome = rag(*arguments)
        assert (outcome.code, outcome.err) == (0, ""), arguments


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the documents' texts that are embedded from now on."""
    texts: list[str] = []
    for model, method in ((MiniLM, "embed"), (MiniLMTokens, "embed_tokens")):
        monkeypatch.setattr(model, method, _noting(getattr(model, method), texts))
    return texts


def test_a_run_makes_anew_only_what_is_made_differently(
    version: str, file: Path, embedded: list[str]
) -> None:
    planned = {
        _name(row): row["what"].rpartition(": ")[2]
        for row in json.loads(rag("plan", "--json").out)
        if row["runs"]
    }
    assert planned == MADE_ANEW[version]
    shown = said("run")
    done = " ".join(shown.split()).split("✓")  # lines are broken at 80 columns
    del planned["release"]  # the same configuration stays the best: it is not released again
    for name, why in planned.items():
        (line,) = (line for line in done if f"] {name} " in line)
        # Both files of judgements are made in the step of the answers.
        together = name.startswith(("entity_scores", "context_scores"))
        reason = why.removeprefix("4 documents (").removesuffix(")")
        assert ("(answers changed)" if together else f"({reason})") in line
    assert all(CHANGED in text for text in embedded), "nothing else is embedded again"
    again = rag("run")
    assert "everything is current" in again.out
    assert rag("gate").code == 0


def test_it_goes_on_from_there(version: str, file: Path, embedded: list[str]) -> None:
    """A changed document is loaded into the tables that the earlier version made."""
    path = Path("documents/policy/travel.md")
    path.write_text(path.read_text().replace("180 euros", "210 euros"))
    queries = Path("queries.jsonl")
    queries.write_text(queries.read_text().replace("180 euros", "210 euros"))
    assert rag("run", "--quiet").code == 0
    assert embedded
    assert all("210 euros" in text or CHANGED in text for text in embedded)
    assert Corpus.load(file).release().release_id == "release-000002"
    assert "210 euros" in rag("search", "How expensive may a hotel be?", "-k", "1").out
    assert rag("rollback").out.startswith("serving release-000001 (default")
    assert "180 euros" in rag("search", "How expensive may a hotel be?", "-k", "1").out


def _noting(
    embed: Callable[..., object], embedded: list[str]
) -> Callable[[MiniLM, Sequence[str], str], object]:
    """Return a method that notes the documents' texts that are embedded."""

    def noting(self: MiniLM, texts: Sequence[str], input_type: str = "document") -> object:
        if input_type == "document":
            embedded.extend(texts)
        return embed(self, texts, input_type)

    return noting


def _name(row: dict[str, str]) -> str:
    return f"{row['asset']} {row['partition']}" if row["partition"] else row["asset"]
