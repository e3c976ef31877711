"""Bytes that change on disk: seen by a full inspection, and made again."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from benchmarks import bench_integrity
from benchmarks.bench_cycles import reindex
from rag_pipeline import Corpus
from rag_pipeline import release as releases
from rag_pipeline.calls import Database
from rag_pipeline.calls.costs import ChargedTokens, Ledger
from rag_pipeline.calls.damage import damaged_answers, damaged_charges, salvage
from rag_pipeline.calls.sql import answers
from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.release import publishing
from rag_pipeline.release.bundle import export
from rag_pipeline.store import tables
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import copy_corpus

TRIALS = 2
VECTORS = "vector_index.fixed.none.minilm"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a folder with a corpus of two releases; change it nowhere but in a copy."""
    folder = tmp_path_factory.mktemp("built") / "whole"
    before = tables.SORTED_ROWS
    bench_integrity.build(folder)
    tables.SORTED_ROWS = before
    return folder


@pytest.fixture
def workspace(built, tmp_path):
    copy_corpus(built, tmp_path / "copy")
    return Workspace(load_config(tmp_path / "copy/cycling.yaml"))


def flip(workspace, pattern):
    """Flip a bit in the middle of the newest file of a pattern below the corpus's folder."""
    file = newest(workspace, pattern)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    root = workspace.config.documents_path.parent / "store/cycling"
    return file.relative_to(root).as_posix()


def newest(workspace, pattern):
    """Return the newest file of a pattern below the corpus's folder."""
    root = workspace.config.documents_path.parent / "store/cycling"
    return max(root.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def repaired(workspace):
    """Repair all findings of a full inspection three times; return whether none is left."""
    for _ in range(3):
        for finding in (findings := inspect(workspace, full=True)):
            finding.mend()
        if not findings:
            break
    workspace = Workspace(workspace.config)
    reindex(workspace)
    found = Corpus(workspace.config).search("fee of contract 0", k=1)
    return inspect(workspace, full=True) == [] and "is 7 euros" in found[0].text


def test_a_table_that_is_cut_off_is_told_where_others_are_made_from_it(workspace):
    file = newest(workspace, "tables/chunks.fixed.lance/data/*")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    # As in a store of an earlier version, whose files have no hashes.
    shutil.rmtree(workspace.config.documents_path.parent / "store/cycling/hashes")
    chunks = workspace.chunks("fixed")
    with pytest.raises(StoreError, match=r"^chunks\.fixed: cannot read: [^\n]*$"):
        chunks.state()
    with pytest.raises(StoreError, match=r"^chunks\.fixed: cannot read: [^\n]*$"):
        list(chunks.read(["text"]))
    assert "chunks.fixed" in {f.place for f in inspect(workspace, full=True)}
    assert repaired(workspace)


def test_a_table_of_which_lance_panics_is_told(workspace):
    """A column's type that Lance does not know ends its thread."""
    file = newest(workspace, f"tables/{VECTORS}.lance/_versions/*.manifest")
    assert b"int64" in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(b"int64", b"int\x164"))
    with pytest.raises(StoreError, match=VECTORS):
        workspace.store.table(VECTORS, None).dataset()
    assert VECTORS in {f.place for f in inspect(workspace, full=True)}
    assert repaired(workspace)


def test_rows_of_a_table_with_a_rotten_file_are_not_read(workspace, monkeypatch):
    """Lance ends the process over some: it asks for as much memory as a flipped length says."""
    read, name = set(), "chunks.fixed"
    really = tables.Table._read_state

    def noted(self, lance):
        read.add((self.name, lance.version))
        return really(self, lance)

    monkeypatch.setattr(tables.Table, "_read_state", noted)
    newest = workspace.store.table(name, None).open().version
    flip(workspace, f"tables/{name}.lance/_deletions/*")
    assert name in {f.place for f in inspect(workspace, full=True)}
    assert (name, newest) not in read
    assert "quarantine.documents" in {name for name, _ in read}
    assert repaired(workspace)


@pytest.mark.long
def test_no_damage_stays_unseen_and_all_that_can_be_is_made_again(built, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "SORTED_ROWS", 4)
    made = list(bench_integrity.trials(built, tmp_path, TRIALS))
    assert len({trial.kind for trial in made}) == TRIALS
    assert [trial for trial in made if trial.outcome in ("silent", "broken")] == []
    assert any(trial.outcome == "healed" for trial in made)


def test_a_flipped_bit_in_the_vectors_is_served_no_more(workspace):
    """Another vector that reads without an error: only the hash shows it."""
    path = flip(workspace, f"tables/{VECTORS}.lance/data/*")
    said = [f.problem for f in inspect(workspace, full=True) if f.place == VECTORS]
    assert path.partition(".lance/")[2] in said[0]
    assert repaired(workspace)


def test_a_release_names_the_hash_of_each_file_and_is_not_exported_when_one_differs(
    workspace, tmp_path
):
    release = releases.current(workspace)
    named = {path.split("/")[1] for path in release.files}
    assert named == {f"{VECTORS}.lance", "documents.lance"}
    assert all(len(entry["sha256"]) == 64 for entry in release.files.values())
    path = flip(workspace, "tables/documents.lance/data/*")
    with pytest.raises(StoreError, match=rf"1 of its files .*{path}.* rag doctor --full --repair"):
        export(workspace, release.release_id, tmp_path / "bundle.zip")
    assert not (tmp_path / "bundle.zip").exists()


def test_a_flipped_bit_of_a_bm25_index_keeps_a_release_from_being_exported(workspace, tmp_path):
    flip(workspace, f"{releases.current(workspace).pinned.lexical_path}/data.csc.index.npy")
    with pytest.raises(StoreError, match="incomplete or altered: its hash differs"):
        export(workspace, releases.current(workspace).release_id, tmp_path / "bundle.zip")


def test_where_it_is_asked_for_a_release_is_held_against_its_hashes_before_it_is_searched(
    workspace,
):
    now, before = (release.release_id for release in releases.history(workspace)[:2])
    corpus, careless = Corpus(workspace.config, verify=True), Corpus(workspace.config)
    corpus.roll_back()
    assert corpus.reopen().release_id == before
    flip(workspace, f"tables/{VECTORS}.lance/data/*")  # of the newer one alone
    publishing.serve(workspace, now)
    with pytest.raises(StoreError, match=rf"{now} is damaged: 1 of its files"):
        corpus.reopen()
    assert corpus.searched().release_id == before
    assert corpus.search("fee of contract 0")
    assert careless.reopen().release_id == now
    with pytest.raises(StoreError, match="is damaged"):
        Corpus(workspace.config, verify=True).search("fee of contract 0")


def test_the_command_says_what_rots_and_mends_it(workspace):
    file = workspace.config.documents_path.parent / "cycling.yaml"
    flip(workspace, "evaluation/leaderboard.json")
    flip(workspace, f"tables/{VECTORS}.lance/data/*")
    assert rag("doctor", file).out.count("altered") == 0
    said = rag("doctor", file, "--full")
    assert said.code == 1
    assert f"store {VECTORS}" in said.out
    mended = rag("doctor", file, "--full", "--repair")
    assert "repaired" in mended.out
    assert "missing or altered" not in rag("doctor", file, "--full").out


def changed(database, statement, *values):
    """Change a file behind its hashes."""
    database.close()
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute(statement, values)


def test_an_answer_that_has_rotted_is_asked_for_again(cache):
    cache.put({b"k1": b"one", b"k2": b"two"})
    changed(cache.database, "UPDATE rag_answers SET value = ? WHERE key = ?", b"twp", b"k2")
    assert damaged_answers(cache.database) == [b"k2"]
    assert cache.get([b"k1", b"k2"]) == {b"k1": b"one"}
    assert cache.known([b"k1", b"k2"]) == {b"k1"}


@pytest.mark.parametrize("column", ["key", "value"])
def test_an_answer_whose_type_has_rotted_is_not_taken(cache, column):
    """One flipped bit in a record's header makes a text of bytes."""
    cache.put({b"k1": b"one", b"k2": b"two"})
    changed(
        cache.database,
        f"UPDATE rag_answers SET {column} = CAST({column} AS TEXT) WHERE key = x'6b32'",
    )
    damaged = damaged_answers(cache.database)
    assert len(damaged) == 1
    assert cache.get([b"k1", b"k2"]) == {b"k1": b"one"}
    cache.database.delete(answers.c.key, damaged)
    assert (damaged_answers(cache.database), len(cache)) == ([], 1)


@pytest.mark.parametrize("place", [0.02, 0.5, 0.98])
def test_what_can_be_read_of_a_torn_call_cache_is_kept(cache, place):
    stored = {n.to_bytes(32, "big"): bytes([n % 256]) * 3000 for n in range(400)}
    cache.put(stored)
    cache.database.close()
    content = bytearray(cache.database.path.read_bytes())
    start = int(place * len(content)) // 4096 * 4096
    content[start : start + 4096] = bytes(4096)
    cache.database.path.write_bytes(bytes(content))
    salvage(cache.database)
    kept = cache.get(list(stored))
    assert kept.items() <= stored.items()
    assert len(kept) >= 200
    cache.put({b"new": b"answer"})
    assert cache.get([b"new"]) == {b"new": b"answer"}


@pytest.mark.parametrize("left", [40, 3000, 4096])
def test_a_call_cache_of_which_nothing_can_be_read_is_made_anew(cache, left):
    cache.put({n.to_bytes(32, "big"): bytes([n % 256]) * 3000 for n in range(40)})
    cache.database.close()
    cache.database.path.write_bytes(cache.database.path.read_bytes()[:left])
    salvage(cache.database)
    assert len(cache) == 0
    cache.put({b"new": b"answer"})
    assert cache.get([b"new"]) == {b"new": b"answer"}


@pytest.fixture
def paid(workspace):
    """Return the ledger of 400 calls of 2.50 USD each, closed."""
    ledger = workspace.ledger
    for n in range(400):
        tokens = ChargedTokens(input=1_000_000)
        ledger.record("chat", "openai", "gpt-4o", tokens, call_id=f"{n}")
    assert damaged_charges(ledger.database) == []
    ledger.database.close()
    return ledger


@pytest.mark.parametrize(
    "rotten", ["usd = 0.25", "usd = 'x'", "model = CAST(model AS BLOB)", "configurations = x'ff'"]
)
def test_a_charge_that_is_not_what_was_stored_is_told_and_dropped(workspace, paid, rotten):
    changed(paid.database, f"UPDATE rag_charges SET {rotten} WHERE call_id = '7'")
    (finding,) = inspect(workspace, full=True)
    assert (finding.place, finding.problem) == (
        "calls.sqlite",
        "1 charges do not match their hashes",
    )
    assert finding.cure == "delete them; they no longer count as spent"
    finding.mend()
    assert inspect(workspace, full=True) == []
    assert paid.spent() == 399 * 2.5


@pytest.mark.parametrize("place", [0.3, 0.7])
def test_what_can_be_read_of_a_torn_ledger_is_kept(workspace, paid, place):
    changed(paid.database, "UPDATE rag_charges SET usd = 99 WHERE call_id IN ('0', '399')")
    content = bytearray(paid.database.path.read_bytes())
    start = int(place * len(content)) // 4096 * 4096
    content[start : start + 4096] = bytes(4096)
    paid.database.path.write_bytes(bytes(content))
    (finding,) = inspect(workspace, full=True)
    assert finding.place == "calls.sqlite"
    finding.mend()
    assert inspect(workspace, full=True) == []
    anew = Ledger(Database(paid.database.path), paid.corpus)
    kept = anew.spent()
    assert kept / 2.5 == len(list(anew.charges())) >= 100
    anew.record("chat", "openai", "gpt-4o", ChargedTokens(input=1_000_000))
    assert anew.spent() == kept + 2.5
