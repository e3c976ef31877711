import json
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline import Corpus
from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.run import show_example, summarize_run
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.driver import Done
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.corpora import QUERIES, paid_contexts, write_corpus, write_documents
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_server import serving


def result(asset: str, partition: str, seconds: float, made: int, saved: int) -> Done:
    return Done(Step(asset, partition), True, seconds, CallCounts(made, saved))


def test_shared_work_counts_for_the_first_configuration(released: Any) -> None:
    workspace = Workspace(load_config(released[0]))
    # `default` and `plain` share the chunks; each has a vector index; the queries of `plain`
    # were embedded for `default` already.
    results = [
        result("documents", "", 9.0, 0, 0),
        result("chunks", "recursive_150", 2.0, 30, 1),
        result("contextualized_chunks", "recursive_150.structural", 1.0, 0, 0),
        result("contextualized_chunks", "recursive_150.none", 1.0, 0, 0),
        result("lexical_index", "recursive_150.structural", 0.5, 0, 0),
        result("vector_index", "recursive_150.structural.minilm", 4.0, 12, 0),
        result("vector_index", "recursive_150.none.minilm", 3.0, 10, 2),
        result("retrieval_run", "default", 0.25, 4, 0),
        result("retrieval_run", "plain", 0.25, 0, 4),
        result("answer_presence", "default", 0.125, 0, 0),
        result("answer_presence", "plain", 0.125, 0, 0),
    ]
    summary = summarize_run(workspace, results, None)
    default, plain = summary["configurations"]
    assert default["calls"] == {"embedding": {"made": 30 + 12 + 4, "saved": 1}}
    assert plain["calls"] == {"embedding": {"made": 10, "saved": 30 + 1 + 2 + 4}}
    assert default["seconds"] == 2.0 + 1.0 + 0.5 + 4.0 + 0.25 + 0.125
    assert plain["seconds"] == 1.0 + 3.0 + 0.25 + 0.125
    assert sum(r.calls.made for r in results) == 56 == 46 + 10

    (alone,) = summarize_run(workspace, results, "plain")["configurations"]
    assert alone["calls"] == {"embedding": {"made": 40, "saved": 7}}


def test_the_json_is_what_is_promised(released: Any) -> None:
    file, outcome = released
    assert (outcome.code, outcome.err) == (0, "")
    written = json.loads((file.parent / "out.json").read_text())
    assert set(written) == {"corpus", "configurations"}
    assert written["corpus"] == "tiny"
    assert [c["name"] for c in written["configurations"]] == ["default", "plain"]
    for configuration in written["configurations"]:
        assert set(configuration) == {"name", "metrics", "seconds", "calls"}
        assert configuration["seconds"] > 0
        assert set(configuration["calls"]) == {"embedding"}
        for metric in configuration["metrics"].values():
            assert set(metric) == {"mean", "n", "missing", "low", "high", "groups"}
        assert configuration["metrics"]["AnswerPresence@20"]["mean"] == 1.0
        assert configuration["metrics"]["AnswerPresence@5"]["n"] == 4
    made = sum(c["calls"]["embedding"]["made"] for c in written["configurations"])
    assert f"{made} texts new to the models; " in outcome.out


def test_a_run_shows_steps_leaderboard_and_an_answered_question(released: Any) -> None:
    _, outcome = released
    marked = [line for line in outcome.out.splitlines() if line.startswith("✓")]
    assert marked[0].startswith("✓ read files  4 read")
    assert marked[-1].startswith("✓ serve the best  release-000001: ")
    assert len(marked) == len({step.asset for step in steps(load_config(released[0]))})
    assert any(line.startswith("✓ index the meaning of chunks, 2 ways  ") for line in marked), (
        "one line a stage"
    )
    assert "20 of 20 steps had work; " in outcome.out
    assert "tiny: configurations by AnswerPresence@5, in percent" in outcome.out
    # The shortest of the questions that are answered by their first chunk.
    above, tail = outcome.out.split("Serving release-000001: ")
    assert "default finds the answer among the first 5 chunks for 4 of 4 questions (100 %" in above
    assert "[1] policy/" in tail or "[1] nda/" in tail, "as `rag ask` answers"
    assert "\n4 documents: 4 indexed\n" in outcome.out
    assert "rag ask 'your question' " in tail


def test_the_example_is_a_question_that_has_an_answer(
    released: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    absent, asked = "What colour is the chairman's umbrella?", QUERIES[0][1]
    corpus = Corpus.load(released[0])
    assert "'" in QUERIES[2][1], "it would need escapes in a shell"
    show_example(corpus, released[0], [absent, QUERIES[2][1], asked])
    shown = capsys.readouterr().out
    assert absent not in shown and asked in shown and "[1]" in shown
    show_example(corpus, released[0], [absent])
    assert capsys.readouterr().out == ""


def test_a_mistyped_document_of_a_question_is_suggested(released: Any) -> None:
    told = refused("ask", asked := QUERIES[3][1], "-d", "policy/travl.md", "-c", released[0])
    assert "did you mean 'policy/travel.md'?" in told
    assert "[1]" in rag("ask", asked, "-d", "policy/travel.md", "-c", released[0]).out


def test_a_run_with_nothing_to_do_says_so_and_counts_what_was_saved(released: Any) -> None:
    file, _ = released
    out = file.parent / "again.json"
    outcome = rag("run", file, "--json", out)
    assert "nothing to do: all 20 steps are up to date; " in outcome.out
    assert "✓" not in outcome.out
    counts = [c["calls"]["embedding"] for c in json.loads(out.read_text())["configurations"]]
    assert [c["made"] for c in counts] == [0, 0]


def test_quiet_writes_nothing_but_the_json(released: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    outcome = rag("run", released[0], "--quiet", "--json", out)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert json.loads(out.read_text())["corpus"] == "tiny"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--configuration", "nope"], "no configuration 'nope'; there are: default, plain"),
        (["--json", "/nowhere/at/all/out.json"], "there is no folder /nowhere/at/all"),
        (["--json", "/"], "--json / is a folder"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = write_corpus(tmp_path)
    assert message in refused("run", file, *arguments)
    assert not (tmp_path / "store").exists()


def test_one_configuration_with_a_line_for_each_step(tmp_path: Path) -> None:
    file, out = write_corpus(tmp_path), tmp_path / "out.json"
    outcome = rag("run", file, "--configuration", "plain", "--json", out, "--verbose")
    assert outcome.code == 0
    assert "(2)" not in outcome.out
    marked = [line for line in outcome.out.splitlines() if line.startswith("✓")]
    assert len(marked) == len(steps(load_config(file), "plain"))
    assert any(line.startswith("✓ vector_index recursive_150.none.minilm  ") for line in marked)
    assert [c["name"] for c in json.loads(out.read_text())["configurations"]] == ["plain"]
    assert Corpus.load(file).release().configuration == "plain"


def test_without_queries_no_question_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_corpus(tmp_path, queries=None)
    monkeypatch.setattr("rag_pipeline.cli.live.LOGGED_EVERY", 0)
    planned = said("plan", file)
    assert planned.startswith("The first plan reads all documents; ")
    assert "  read files: 4 of 4 documents" in planned
    assert "reads all documents" not in said("plan", file)
    shown = said("run", file)
    assert "  index the meaning of chunks: " in shown, "a line tells the progress of a long stage"
    assert "[1]" not in shown.split("Serving release-000001")[1]
    assert "configurations by" not in shown, "nothing is measured"
    told = "tiny: nothing is measured without questions; to make some: rag questions\n"
    assert said("leaderboard", file) == told


def test_a_refused_check_ends_in_three_and_what_was_served_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_corpus(tmp_path)
    from rag_pipeline.models.providers.minilm import MiniLM

    embed = MiniLM.embed
    monkeypatch.setattr(MiniLM, "embed", lambda *a: 2 * embed(*a))
    outcome = rag("run", file)
    assert outcome.code == 3
    assert outcome.err.startswith("refused: vector_index recursive_150.structural.minilm: check")
    assert "not_unit_length" in outcome.err
    assert rag("search", "x", "-c", file).code == 1


# --- a refusal by a provider or a budget: one clear line and an exit code ---

DOCUMENT = {"policy.md": "# Leave\n\nEvery parent may take sixteen weeks of paid leave.\n"}


def run(folder: Path, settings: dict[str, Any]) -> tuple[int, str]:
    """Run a corpus of one document; return the exit code and the last line of its errors."""
    file = write_corpus(folder, **settings, queries=None)
    (folder / "documents").rename(folder / "unused")
    write_documents(folder / "documents", DOCUMENT)
    outcome = rag("run", file)
    shown = outcome.out + outcome.err
    assert "Traceback" not in shown
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    assert len(lines) == 1, outcome.err
    return outcome.code, lines[0]


@pytest.mark.parametrize(
    ("reply", "changes", "code", "says"),
    [
        (Fault(401, "Incorrect API key"), {}, 1, "Incorrect API key (HTTP 401); check the key"),
        ("unused", {"budget_usd": 0.0}, 3, "more than budget_usd 0"),
    ],
    ids=["key", "budget"],
)
def test_what_a_chat_model_refuses_is_one_line(
    tmp_path: Path, reply: str | Fault, changes: dict[str, Any], code: int, says: str
):
    with serving(lambda body: reply) as server:
        found, line = run(tmp_path, paid_contexts(tmp_path, server.url, **changes))
        assert says in line
        assert found == code
        # A refused key is asked once more, with another text.
        assert len(server.requests) == (0 if "budget_usd" in changes else 2)
    note = json.loads((tmp_path / "store/tiny/costs/last_run.json").read_text())
    assert note["estimate"]["output"] == 150, "one chunk, one prompt"
