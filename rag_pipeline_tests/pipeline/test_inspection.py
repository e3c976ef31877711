import shutil
from pathlib import Path

import pytest

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.release.manifest import next_id
from rag_pipeline.store.schemas import vector_schema
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import copy_corpus

VECTORS = "vector_index.fixed.none.minilm"
CONTEXTS = "contextualized_chunks.fixed.none"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a folder with a corpus of two releases; change it nowhere but in a copy."""
    folder = tmp_path_factory.mktemp("built")
    workspace = Workspace(load_config(write_cycling(folder, 3)))
    reindex(workspace)
    edit(folder, 0, 7)
    reindex(workspace)
    return folder


@pytest.fixture
def workspace(built, tmp_path):
    copy_corpus(built, tmp_path)
    return Workspace(load_config(tmp_path / "cycling.yaml"))


def mend(workspace):
    """Repair as `rag doctor --repair` does; return the first findings."""
    said = left = inspect(workspace)
    for _ in range(3):
        for finding in left:
            assert finding.mend
            finding.mend()
        if not (left := inspect(workspace)):
            break
    assert left == []
    return {finding.place: finding for finding in said}


def assert_works_again(workspace):
    reindex(workspace)
    assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
    assert "is 7 euros" in Corpus(workspace.config).search("fee of contract 0", k=1)[0].text


def files(workspace, pattern):
    root = Path(workspace.config.store_url) / "cycling"
    return sorted(root.glob(pattern), key=lambda path: path.stat().st_mtime)


def test_nothing_is_wrong_with_a_healthy_store(workspace):
    assert inspect(workspace) == []


def test_a_table_whose_newest_data_is_gone_goes_back_to_what_is_whole(workspace):
    table = workspace.contextualized_chunks("fixed.none")
    rows = list(table.read(table.open().schema.names, ["0000.txt"]))
    table.replace(["0000.txt"], rows)
    files(workspace, f"tables/{CONTEXTS}.lance/data/*")[-1].unlink()
    said = mend(workspace)
    assert "restore its version" in said[CONTEXTS].cure
    assert_works_again(workspace)


def test_a_table_without_any_manifest_that_can_be_read_is_built_again(workspace):
    for manifest in files(workspace, f"tables/{CONTEXTS}.lance/_versions/*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:20])
    assert mend(workspace)[CONTEXTS].cure.startswith("remove it; the next run builds it again")
    assert_works_again(workspace)


def test_a_lost_vector_table_loses_its_releases_and_says_so(workspace):
    shutil.rmtree(files(workspace, f"tables/{VECTORS}.lance")[0])
    said = mend(workspace)
    lost = said["releases/release-000002.json"]
    assert f"{VECTORS} at version" in lost.problem and "the release is lost" in lost.cure
    assert "releases/current.json" in said
    assert_works_again(workspace)


def test_rows_that_do_not_match_are_made_again(workspace):
    workspace.store.table(VECTORS, None).open().delete("document_id = '0001.txt'")
    doubled = workspace.store.table(CONTEXTS, None)
    (batch,) = doubled.read(doubled.open().schema.names, ["0002.txt"])
    doubled.open().add(batch)
    said = mend(workspace)
    assert (
        "1 document with more or fewer rows than in chunks.fixed: 0002.txt"
        in said[CONTEXTS].problem
    )
    assert_works_again(workspace)


def test_what_a_recorded_verdict_refuses_is_found_without_reading_rows_and_made_again(workspace):
    table = workspace.chunks("fixed")
    table.open().update(where="start = 0", values={"text": "something else"})
    for _ in range(2):  # every run refuses it
        with pytest.raises(CheckFailedError, match="`rag doctor --repair cycling` repairs it"):
            list(run(workspace.config))
    found = mend(workspace)
    assert list(found) == ["chunks.fixed"]
    problem = found["chunks.fixed"].problem
    assert problem.startswith("check chunks_is_sound failed: text_differs")
    assert "doctor" not in problem, "its cure is told beside it"
    list(run(workspace.config))
    assert_works_again(workspace)


def test_vectors_of_another_dimension_are_started_afresh(workspace):
    other = workspace.store.table(VECTORS, vector_schema(8))
    other.ensure()
    said = mend(workspace)
    assert "have 8 dimensions, but the embedding has 384" in said[VECTORS].problem
    assert_works_again(workspace)


def test_an_altered_index_of_a_release_is_built_from_the_releases_own_rows(workspace):
    before = Corpus(workspace.config).search("fee of contract 2", k=3)
    current = Corpus(workspace.config).release().pinned.lexical_path
    chunks = next(p for p in files(workspace, f"{current}/chunks.arrow"))
    chunks.write_bytes(chunks.read_bytes()[:-7])
    said = mend(workspace)
    finding = said["releases/release-000002.json"]
    assert "incomplete or altered" in finding.problem and "own rows" in finding.cure
    assert Corpus(workspace.config).search("fee of contract 2", k=3) == before


@pytest.mark.parametrize("content", [b'{"format": 1, "rel', b"[]"])
def test_an_unreadable_manifest_is_removed_and_the_newest_whole_release_served(workspace, content):
    workspace.store.write_bytes("releases/release-000002.json", content)
    said = mend(workspace)
    assert "the release is lost" in said["releases/release-000002.json"].cure
    assert said["releases/current.json"].cure == "serve release-000001"
    assert next_id(workspace) == "release-000003", "no id is used twice"
    assert "is 0 euros" in Corpus(workspace.config).search("fee of contract 0", k=1)[0].text


def test_torn_small_files_are_written_again(workspace):
    results = {"evaluation/retrieval_run/one.parquet", "evaluation/leaderboard.json"}
    gate = {"gate/refused.json", "gate/reference.json"}
    for path in results | gate:
        workspace.store.write_bytes(path, b"torn")
    workspace.store.write_bytes("releases/current.json", b"torn")
    said = mend(workspace)
    assert results | gate <= set(said)
    assert {said[path].cure for path in gate} == {
        "remove it; the gate counts its comparisons from here"
    }
    assert said["releases/current.json"].cure == "serve release-000002"
    assert_works_again(workspace)


def test_the_command_says_what_is_wrong_and_mends_it(workspace, tmp_path):
    workspace.store.write_bytes("evaluation/leaderboard.json", b"torn")
    said = rag("doctor", "-c", tmp_path / "cycling.yaml")
    assert said.code == 1
    assert "wrong store evaluation/leaderboard.json: " in said.out
    assert "`rag doctor --repair` would: remove it; the next run writes it again" in said.out
    mended = rag("doctor", "-c", tmp_path / "cycling.yaml", "--repair")
    assert "repaired evaluation/leaderboard.json: " in mended.out
    assert f"Next: rag run {tmp_path}" in mended.out
    assert mended.code == 0
    for _ in run(workspace.config):
        pass
    assert rag("doctor", "-c", tmp_path / "cycling.yaml").code == 0
