"""The disk fills up, or the store turns read-only: one clear error, and the release serves on."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.disks import mount

QUESTION = "fee of contract 0"


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory) -> Iterator[Path]:
    """Return a corpus of one release whose store is a file system of 4 MB."""
    folder = tmp_path_factory.mktemp("small")
    write_cycling(folder, 5)
    (folder / "store").mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", folder / "store")
    try:
        reindex(Workspace(load_config(folder / "cycling.yaml")))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder / "store"], check=True)


def served(folder: Path) -> str:
    return Corpus.load(folder / "cycling.yaml").search(QUESTION, k=1)[0].text


def assert_finishes(folder: Path, fee: int) -> None:
    workspace = Workspace(load_config(folder / "cycling.yaml"))
    reindex(workspace)
    assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
    assert inspect(workspace) == []
    assert f"is {fee} euros" in served(folder)


@pytest.mark.parametrize(("left", "fee"), [(0, 101), (8_192, 102), (40_960, 103), (65_536, 104)])
def test_a_full_disk_is_one_error_and_the_next_run_finishes(small_disk, left, fee):
    before = served(small_disk)
    edit(small_disk, 0, fee)
    filler = small_disk / "store" / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk / "store").free - left))
    try:
        with pytest.raises(StoreError, match=r"(?i)no space left|disk is full|database or disk"):
            reindex(Workspace(load_config(small_disk / "cycling.yaml")))
        assert served(small_disk) == before
    finally:
        filler.unlink()
    assert_finishes(small_disk, fee)


def test_a_read_only_store_is_one_error_and_serves_on(small_disk):
    store = small_disk / "store"
    before = served(small_disk)
    edit(small_disk, 0, 200)
    mount("--bind", store, store)
    try:
        mount("-o", "remount,ro,bind", store)
        outcome = rag("run", small_disk / "cycling.yaml", "--quiet")
        assert outcome.code == 1
        assert "Read-only file system" in outcome.err
        assert "Traceback" not in outcome.err and len(outcome.err.splitlines()) == 1
        assert served(small_disk) == before
    finally:
        subprocess.run(["umount", "-l", store], check=True)
    assert_finishes(small_disk, 200)
