"""A folder is looked at: its kinds, giants and the length of its text."""

from pathlib import Path

from rag_pipeline.loading.survey import survey

TEXT = "The tenant pays the rent on the first day of each month. "


def test_a_folder_is_described(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("rent.md", "old/rent.md", "terms.md"):
        (tmp_path / name).write_text(f"# {name}\n\n" + TEXT * 10)
    (tmp_path / "web.log").write_text("GET /\n" * 200_000)
    (tmp_path / "small.log").write_text("GET /\n")
    (tmp_path / "note.log").write_text("POST /")
    (tmp_path / "old/small.log").write_text("GET /\n")
    found = survey(tmp_path)
    assert found.kinds == {".md": 3, ".log": 4}
    assert found.copies == ["old/small.log"], "other bytes of the same length are no copy"
    assert found.heavy == {"web.log": 1_200_000}
    assert found.languages == {"en": 1.0}
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.*") if path.name != "web.log"]
    assert found.characters == sum(sizes)
    assert set(survey(tmp_path, ["*.log", "old/**"]).kinds) == {".md"}


def test_a_table_that_holds_most_of_the_text_is_heavy(tmp_path: Path) -> None:
    rows = "2026-01-01T00:05:00,TG3,0.588,19.79,3.69\n" * 30_000
    (tmp_path / "gauge.csv").write_text(rows)
    (tmp_path / "stock.csv").write_text("article,price\nrope,4\n")
    (tmp_path / "rules.txt").write_text("Der Mieter zahlt die Miete am ersten Tag. " * 1_000)
    found = survey(tmp_path)
    assert found.heavy == {"gauge.csv": 30_000 * 41}
    assert found.characters == 42_000 + 21
    assert len(found.texts) == 2 and found.languages == {"de": 1.0}, "chosen without the table"
    (tmp_path / "rules.txt").write_text("Der Mieter zahlt die Miete am ersten Tag. ")
    assert survey(tmp_path).heavy == {}, "with little else, the table is what is searched"
