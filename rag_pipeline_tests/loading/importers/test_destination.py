import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.loading.importers import FORMATS, import_dataset
from rag_pipeline_tests.testing.small_sets import FEE, SMALL, legalbench, refused, tree, write


@pytest.mark.parametrize("format", FORMATS)
def test_a_second_run_changes_nothing(tmp_path: Path, format: str) -> None:
    source, out = SMALL[format](tmp_path / "in"), tmp_path / "out"
    report = import_dataset(format, source, out)
    assert report.queries >= 1
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in out.rglob("*")}
    assert import_dataset(format, source, out) == report
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in out.rglob("*")} == before


def test_stale_documents_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    source, out = legalbench(tmp_path / "in", FEE), tmp_path / "out"
    write(source / "corpus/old/deep/gone.txt", "Old.")
    import_dataset("legalbench-rag", source, out)
    write(out / "documents/mine.txt", "Mine.")
    (source / "corpus/old/deep/gone.txt").unlink()
    import_dataset("legalbench-rag", source, out)
    assert sorted(tree(out / "documents")) == ["cuad/fee.txt", "cuad/unasked.txt", "mine.txt"]
    assert not (out / "documents/old").exists()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("over_an_earlier_one", [False, True])
def test_a_killed_import_is_completed_by_a_rerun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over_an_earlier_one: bool
) -> None:
    """Stop the import before each change of the file system, one after another."""
    old = legalbench(tmp_path / "old", FEE, FEE)
    write(old / "corpus/gone.txt", "Gone.")
    new = legalbench(tmp_path / "new", FEE)
    write(new / "corpus/added.txt", "Added.")
    whole = {}
    for source in (old, new):
        import_dataset("legalbench-rag", source, source / "out")
        whole[source] = tree(source / "out")
    stops = 0
    for step in range(40):
        out = tmp_path / str(step)
        if over_an_earlier_one:
            import_dataset("legalbench-rag", old, out)
        with monkeypatch.context() as patch:
            calls = itertools.count()
            for name in ("mkdir", "write_bytes", "replace", "unlink"):
                patch.setattr(Path, name, _stopping(getattr(Path, name), calls, step))
            try:
                import_dataset("legalbench-rag", new, out)
            except Killed:
                stops += 1
        left = tree(out)
        if "queries.jsonl" in left:
            assert _without_marker(left) in [_without_marker(files) for files in whole.values()]
        import_dataset("legalbench-rag", new, out)
        assert tree(out) == whole[new]
    assert 10 <= stops < 40


def _without_marker(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.startswith(".rag-import")}


def _stopping(real: Callable[..., Any], calls: Any, step: int) -> Callable[..., Any]:
    def stopping(*arguments: Any, **options: Any) -> Any:
        if next(calls) == step:
            raise Killed
        return real(*arguments, **options)

    return stopping


def test_other_destinations_are_refused(tmp_path: Path) -> None:
    source = SMALL["legalbench-rag"](tmp_path / "in")
    write(tmp_path / "taken/notes.txt", "Mine.")
    message = refused("legalbench-rag", source, tmp_path / "taken")
    assert message.endswith("taken: is not empty and holds no import; choose a new folder")
    write(tmp_path / "docs/documents/mine.txt", "Mine.")
    assert "not empty" in refused("legalbench-rag", source, tmp_path / "docs")
    assert "is a file" in refused("legalbench-rag", source, tmp_path / "taken/notes.txt")
    assert "can't be written" in refused("legalbench-rag", source, tmp_path / "taken/notes.txt/x")
    assert "is inside" in refused("legalbench-rag", source, source / "corpus/out")
    import_dataset("contractnli", SMALL["contractnli"](tmp_path / "other"), tmp_path / "nli")
    message = refused("legalbench-rag", source, tmp_path / "nli")
    assert message.endswith(
        "nli: holds an import of 'contractnli', not of 'legalbench-rag'; choose another folder"
    )


def test_a_tampered_marker_removes_nothing_outside(tmp_path: Path) -> None:
    source, out = SMALL["legalbench-rag"](tmp_path / "in"), tmp_path / "out"
    write(tmp_path / "precious.txt", "Keep.")
    import_dataset("legalbench-rag", source, out)
    for names in (["../../precious.txt"], [str(tmp_path / "precious.txt")], "all"):
        write(out / ".rag-import.json", {"format": "legalbench-rag", "documents": names})
        assert ".rag-import.json: documents" in refused("legalbench-rag", source, out)
    assert (tmp_path / "precious.txt").exists()
