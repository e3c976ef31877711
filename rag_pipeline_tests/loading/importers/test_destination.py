from pathlib import Path

import pytest

from rag_pipeline.loading.importers import FORMATS, import_dataset
from rag_pipeline_tests.testing.small_sets import SMALL, refused, tree, write


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_source_gives_the_same_bytes(tmp_path: Path, format: str) -> None:
    source = SMALL[format](tmp_path / "in")
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        assert import_dataset(format, source, tmp_path / name).queries >= 1
    assert tree(tmp_path / "new") == tree(tmp_path / "empty")


def test_an_interrupted_import_leaves_nothing_and_is_completed_by_a_rerun(tmp_path: Path) -> None:
    source, out = SMALL["legalbench-rag"](tmp_path / "in"), tmp_path / "out"
    import_dataset("legalbench-rag", source, tmp_path / "whole")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_dataset("legalbench-rag", source, out, interrupt)
    assert not out.exists()
    write(tmp_path / ".out.part/documents/stale.txt", "Of another source.")
    import_dataset("legalbench-rag", source, out)
    assert tree(out) == tree(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "whole"]


def test_other_destinations_are_refused(tmp_path: Path) -> None:
    source = SMALL["legalbench-rag"](tmp_path / "in")
    write(tmp_path / "taken/notes.txt", "Mine.")
    message = refused("legalbench-rag", source, tmp_path / "taken")
    assert message.endswith("taken: is not empty; choose a new folder, or delete this one")
    assert "is a file" in refused("legalbench-rag", source, tmp_path / "taken/notes.txt")
    assert "can't be written" in refused("legalbench-rag", source, tmp_path / "taken/notes.txt/x")
    assert "is inside" in refused("legalbench-rag", source, source / "corpus/out")
