import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rag_pipeline.models import providers
from rag_pipeline.models.providers import encoder, minilm
from rag_pipeline_tests.testing.command_line import Outcome, rag
from rag_pipeline_tests.testing.corpora import write_corpus


def findings(outcome: Outcome) -> dict[str, str]:
    """Return `word: finding` by the name of the check."""
    rows = [line.partition(": ") for line in outcome.out.splitlines()[:-1]]
    return {head.split(maxsplit=1)[1]: f"{head.split()[0]}: {text}" for head, _, text in rows}


def assert_wrong(outcome: Outcome, what: str, *messages: str) -> None:
    assert (outcome.code, outcome.err) == (1, "")
    found = findings(outcome)
    assert found[what].startswith("wrong: ")
    for message in messages:
        assert message in found[what]
    assert [name for name, text in found.items() if text.startswith("wrong")] == [what]
    assert outcome.out.endswith("1 fault to repair\n")


def test_a_healthy_corpus(released: Any) -> None:
    outcome = rag("doctor", "-c", released[0])
    assert (outcome.code, outcome.err) == (0, "")
    found = findings(outcome)
    assert all(text.startswith("ok: ") for text in found.values())
    assert found["documents"].endswith("4 current, 0 new or changed, 0 gone")
    assert "4 queries in " in found["queries and given chunks"]
    assert "release-000001: " in found["release"]
    assert " answers" in found["call cache"]
    assert outcome.out.endswith("all is well\n")


def test_a_corpus_before_its_first_run_is_healthy_and_left_as_it_is(tmp_path: Path) -> None:
    file = write_corpus(tmp_path)
    outcome = rag("doctor", "-c", file)
    assert outcome.code == 0
    found = findings(outcome)
    assert found["release"].startswith("note: ")
    assert found["call cache"] == "ok: none yet"
    assert found["documents"].endswith("0 current, 4 new or changed, 0 gone")
    assert not list((tmp_path / "store").rglob("*.lance"))


def test_no_corpus_file(here: Path) -> None:
    assert_wrong(rag("doctor"), "corpus file", "no corpus file in", "rag init NAME")


def without_documents(folder: Path) -> None:
    shutil.rmtree(folder / "documents")


def with_broken_queries(folder: Path) -> None:
    (folder / "queries.jsonl").write_text("nonsense\n")


def with_a_corrupt_call_cache(folder: Path) -> None:
    (folder / "store").mkdir()
    (folder / "store" / "calls.sqlite").write_bytes(b"not a database" * 100)


@pytest.mark.parametrize(
    ("break_it", "what", "messages"),
    [
        (lambda folder: write_corpus(folder, serve="no"), "corpus file", ["y.yaml", "serve: 'no'"]),
        (without_documents, "documents", ["no such file or folder", "documents"]),
        (
            with_broken_queries,
            "queries and given chunks",
            ["queries.jsonl:1: not valid JSON"],
        ),
        (
            with_a_corrupt_call_cache,
            "call cache",
            ["file is not a database; `rag doctor --full --repair`"],
        ),
    ],
)
def test_one_fault(tmp_path: Path, break_it: Any, what: str, messages: list[str]) -> None:
    file = write_corpus(tmp_path)
    break_it(tmp_path)
    assert_wrong(rag("doctor", "-c", file), what, *messages)


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    # Not even root can write there.
    outcome = rag("doctor", "-c", write_corpus(tmp_path, store="/proc/store"))
    assert outcome.code == 1
    assert findings(outcome)["disk"].startswith("wrong: /proc/store: cannot write in /proc: ")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        total: int = 100_000_000_000
        used: int = 99_990_000_000
        free: int = 10_000_000

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    outcome = rag("doctor", "-c", write_corpus(tmp_path))
    assert_wrong(outcome, "disk", "only 10 MB free", str(tmp_path / "store"))


def test_a_missing_packaged_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_corpus(tmp_path)
    caches = (providers.open_embedder, encoder._session)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(minilm, "_MODEL", ("no_such_package", "model.onnx"))
    try:
        outcome = rag("doctor", "-c", file)
    finally:
        for cache in caches:
            cache.cache_clear()
    message = "the packaged model is missing: no_such_package/model.onnx; reinstall"
    found = findings(outcome)
    assert outcome.code == 1
    assert found["packaged English model"].startswith("wrong: ")
    assert message in found["packaged English model"]


def test_a_missing_dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    outcome = rag("doctor", "-c", write_corpus(tmp_path))
    assert_wrong(outcome, "dagster home", "DAGSTER_HOME=/nowhere: no such folder")


def test_a_damaged_release(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, serve="default")
    assert rag("run", file, "--quiet").code == 0
    shutil.rmtree(tmp_path / "store" / "tiny" / "lexical")
    assert "Traceback" not in rag("search", "hotel", "-c", file).err
    found = findings(rag("doctor", "-c", file))
    assert found["release"].startswith("wrong: ") and "lexical" in found["release"]
    assert "build lexical/" in found["store releases/release-000001.json"]
    mended = rag("doctor", "-c", file, "--repair")
    assert mended.code == 0
    assert rag("search", "hotel", "-c", file).code == 0
