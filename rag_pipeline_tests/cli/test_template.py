"""`rag init`: its file loads under any name and in any folder."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rag_pipeline.config import load_config
from rag_pipeline.indexing import update_documents
from rag_pipeline.loading.sources import list_files
from rag_pipeline.pipeline import first_look
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag, refused, said

QUERY = '{"query_id": "1", "query": "x"}\n'


def folder(name: str = "documents") -> Path:
    path = Path(name)
    path.mkdir(parents=True)
    (path / "a.txt").write_text("text")
    return path


def test_a_corpus_in_the_working_directory(here: Path) -> None:
    documents = folder()
    for number in range(9):
        (documents / f"act_v{number}.t{number}").write_text(f"{number}")
    Path("queries.jsonl").write_text(QUERY)
    shown = said("init", "acts", "--documents", "documents", "--queries", "queries.jsonl")
    assert shown.startswith("10 files, 0.0 MB: ")
    assert ", 2 other\n" in shown
    assert "drafts, copies and old versions by name: act_v0.t0; act_v1.t1" in shown
    assert "acts.yaml; its schema and tables go to rag-store; to remove the corpus, delete" in shown
    assert shown.splitlines()[-2] == "Next: rag run"
    config = load_config("acts.yaml")
    assert config.corpus == "acts"
    assert config.documents_path == here / "documents"
    assert config.queries_path == here / "queries.jsonl"
    assert config.store_url == str(here / "rag-store")
    assert list(config.all_configurations) == ["default", "plain"]
    plain = config.configuration("plain")
    assert (plain.chunking, plain.contextualizer, plain.retriever) == (
        "recursive_500",
        "none",
        "dense",
    )
    text = Path("acts.yaml").read_text()
    assert "path: documents\n" in text
    assert max(map(len, text.splitlines())) <= 100
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_spans_that_were_cut_upstream_are_used(here: Path) -> None:
    folder()
    Path("queries.jsonl").write_text(QUERY)
    Path("chunks.jsonl").write_text('{"document_id": "a.txt", "start": 0, "end": 1}\n')
    rag("init", "acts", "--documents", "documents", "--queries", "queries.jsonl")
    config = load_config("acts.yaml")
    assert config.configuration("default").chunking == "given"
    given: Any = config.chunkings["given"]
    assert given.file(config) == here / "chunks.jsonl"


def test_a_file_in_another_folder_finds_what_was_named_from_here(here: Path) -> None:
    folder()
    Path("conf").mkdir()
    outcome = rag("init", "acts", "--documents", "documents", "--output", "conf/c.yaml",
                  "--store", "built")  # fmt: skip
    assert "Next: rag questions conf/c.yaml\n      rag run conf/c.yaml\n" in outcome.out
    config = load_config("conf/c.yaml")
    assert config.documents_path == here / "documents"
    assert config.store_url == str(here / "built")


def test_paths_below_the_file_stay_relative_so_that_the_folder_can_move(here: Path) -> None:
    folder("moving/documents")
    rag("init", "acts", "--documents", "moving/documents", "--output", "moving/acts.yaml",
        "--store", "moving/store")  # fmt: skip
    Path("moving").rename("moved")
    config = load_config("moved/acts.yaml")
    assert config.documents_path == here / "moved" / "documents"
    assert config.store_url == str(here / "moved" / "store")


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted"',
        "caf\u00e9 \u6587\u66f8",
        "2024-01-01",
        "- dash",
        "# hash",
        "a: b",
        "%s",
        "back\\slash",
        "new\nline",
        "&anchor",
    ],
)
def test_any_path_is_read_back_as_it_was_given(here: Path, name: str) -> None:
    folder(f"./{name}")
    said("init", "acts", "--documents", f"./{name}", "--store", f"./{name}/store")
    config = load_config("acts.yaml")
    assert config.documents_path == here / name
    assert config.store_url == str(here / name / "store")


@pytest.mark.parametrize("name", ["true", "1e3", "0x10", "-"])
def test_any_allowed_name_is_read_back(here: Path, name: str) -> None:
    folder()
    arguments = ["init", "--documents", "documents", "--output", "c.yaml", "--", name]
    assert rag(*arguments).code == 0
    assert load_config("c.yaml").corpus == name


def test_a_store_in_a_bucket_and_one_in_the_home(here: Path) -> None:
    folder()
    rag("init", "acts", "--documents", "documents", "--store", "s3://bucket/prefix")
    assert load_config("acts.yaml").store_url == "s3://bucket/prefix"
    rag("init", "acts", "--documents", "documents", "--store", "~/store", "--force")
    assert load_config("acts.yaml").store_url == str(Path.home() / "store")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b", "--documents", "documents"], "corpus name 'a b': use 1 to 64"),
        (["../x", "--documents", "documents"], "corpus name '../x': use 1 to 64"),
        (["x" * 65, "--documents", "documents"], "x': use 1 to 64 letters"),
        (["acts", "--documents", "absent"], "--documents absent: no such folder or file"),
        (["acts", "--documents", "documents", "--queries", "q"], "--queries q: no such file"),
        (["acts", "--documents", "documents", "--queries", "bad.jsonl"], "bad.jsonl:1: not valid"),
        (["taken", "--documents", "documents"], "taken.yaml exists; name another --output"),
        (["acts", "--documents", "documents", "--output", "no/a.yaml"], "there is no folder"),
        (["acts", "--documents", "documents", "--output", "dir.yaml"], "is a folder; name a file"),
        (["acts", "--documents", "documents", "--output", "acts"], "a file name that ends in .y"),
    ],
)
def test_mistakes_write_nothing(here: Path, arguments: list[str], message: str) -> None:
    folder()
    Path("taken.yaml").write_text("mine")
    Path("dir.yaml").mkdir()
    Path("bad.jsonl").write_text("nonsense")
    before = sorted(p.name for p in here.iterdir())
    assert message in refused("init", *arguments)
    assert sorted(p.name for p in here.iterdir()) == before
    assert Path("taken.yaml").read_text() == "mine"


def test_force_replaces(here: Path) -> None:
    folder()
    Path("acts.yaml").write_text("mine")
    assert rag("init", "acts", "--documents", "documents", "--force").code == 0
    assert load_config("acts.yaml").corpus == "acts"
    Path("queries.jsonl").write_text(QUERY)
    Path("acts.yaml").write_text("attributes: {queries: queries.jsonl}")
    assert rag("init", "acts", "--documents", "documents", "--force").code == 0
    assert load_config("acts.yaml").queries_path == here / "queries.jsonl"


def test_the_commented_lines_are_right_too(here: Path) -> None:
    folder()
    Path("queries.jsonl").write_text(QUERY)
    rag("init", "acts", "--documents", "documents")
    text = Path("acts.yaml").read_text()
    for comment in ("queries:", "semantic_2_0:", "markdown:", "fixed_200:", "- {chunking", "sched"):
        assert f"# {comment}" in text
        text = text.replace(f"# {comment}", comment)
    Path("all.yaml").write_text(text)
    config = load_config("all.yaml")
    assert len(config.chunkings) == 5
    assert len(config.all_configurations) == 7
    assert config.queries_path == here / "queries.jsonl"
    assert config.schedule == "0 3 * * *"


def test_the_file_names_its_schema_in_the_store(here: Path) -> None:
    folder()
    Path("my conf").mkdir()
    rag("init", "acts", "--documents", "documents", "--output", "my conf/my acts.yaml")
    text = Path("my conf/my acts.yaml").read_text()
    mark, _, address = text.splitlines()[0].partition("$schema=")
    assert mark == "# yaml-language-server: "
    assert address == f"{here}/rag-store/my%20acts.schema.json"
    schema = json.loads(Path("rag-store/my acts.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(text), schema)
    assert json.loads(rag("schema").out) == schema
    outcome = rag("schema", "--output", "again.json")
    assert (outcome.code, outcome.out) == (0, "wrote again.json\n")
    assert json.loads(Path("again.json").read_text()) == schema
    assert "none/x.json: cannot write it: No such" in rag("schema", "--output", "none/x.json").err


@pytest.mark.parametrize(
    ("sentence", "embedding", "told"),
    [
        (
            "The notice period is three months. ",
            "minilm",
            "languages of 1 text read: English 100%\n",
        ),
        ("Die Kündigungsfrist beträgt drei Monate. ", "e5", "embedding: e5 reads German, and"),
    ],
)
def test_the_embedding_is_chosen_by_the_documents_languages(
    here: Path, sentence: str, embedding: str, told: str
) -> None:
    (folder() / "a.txt").write_text(sentence * 10, "utf-8")
    outcome = rag("init", "acts", "--documents", "documents")
    assert told in outcome.out
    config = load_config("acts.yaml")
    assert {c.embedding for c in config.all_configurations.values()} == {embedding}
    assert config.lexical.language == ("english" if embedding == "minilm" else "auto")
    text = Path("acts.yaml").read_text()
    assert max(map(len, text.splitlines())) <= 100


def test_logs_are_left_out_unless_all_files_are_wanted(here: Path) -> None:
    (folder() / "a [1].log").write_text("GET /index 200\n" * 70_000)
    assert "left out as logs or data: a [1].log (1.1 MB, 100% of the text" in said(
        "init", "acts", "--documents", "documents"
    )
    assert [
        f.relative
        for f in list_files(load_config("acts.yaml").documents_source, here / "documents")
    ] == ["a.txt"]
    said("init", "all", "--documents", "documents", "--exclude", "", "--model", "e5")
    config = load_config("all.yaml")
    assert config.documents.exclude == ()
    assert {c.embedding for c in config.all_configurations.values()} == {"e5"}


def test_a_folder_whose_files_are_all_left_out(here: Path) -> None:
    folder()
    shown = said("init", "acts", "--documents", "documents", "--exclude", "*")
    assert "no file of documents is used; add one, or change --exclude, before a run" in shown
    assert "0 files" not in shown and "not installed" not in shown


def test_what_must_be_installed_comes_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder() / "a.txt").write_text("Die Kündigungsfrist beträgt drei Monate. " * 10, "utf-8")
    monkeypatch.setattr(first_look, "find_spec", lambda name: None)
    shown = said("init", "acts", "--documents", "documents")
    assert "(estimated, not installed); reads about 100 languages" in shown
    last = shown[shown.index("Next: ") :].splitlines()
    assert "install" in last[0] and "e5" in last[0]
    assert last[1:3] == ["      rag questions", "      rag run"]


def test_a_folder_is_enough_and_what_is_written_into_it_is_no_document(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = here / "my notes"
    notes.mkdir()
    (notes / "a [1].txt").write_text("The term of this agreement is five years from signing it.")
    (notes / "queries.jsonl").write_text(QUERY)
    monkeypatch.chdir(notes)
    assert rag("init", ".", "--queries", "queries.jsonl").code == 0
    config = load_config("my_notes.yaml")
    assert (config.corpus, config.documents_path) == ("my_notes", notes)
    for _ in range(2):  # the second time there are a store and files of settings, too
        workspace = Workspace(config)
        update_documents(workspace)
        assert set(workspace.documents().state()) == {"a [1].txt"}
        assert not workspace.quarantine("documents").state()
        for kept in ("rejected", "dropped", "unlabelled", "unlabelled.rejected"):
            (notes / f"queries.{kept}.jsonl").write_text(QUERY)
        (notes / "my_notes.html").write_text("<p>A report of this corpus.</p>")
    assert (notes / "rag-store").is_dir()


def test_a_folder_that_is_not_there_is_no_corpus(here: Path) -> None:
    missing = "Missing '--documents', and there is no folder 'x' here"
    assert missing in refused("init", "x")
