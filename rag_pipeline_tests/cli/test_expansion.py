import json

from rag_pipeline.assistant.expansion import ExpandedDocuments
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Document
from rag_pipeline_tests.testing.command_line import rag, refused
from rag_pipeline_tests.testing.corpora import write_corpus, write_file


def test_what_was_found_outside_is_shown_and_forgotten(tmp_path):
    expansion = {"look_in": {"source": "folder", "path": "outside"}}
    file = write_corpus(tmp_path, assistant={"expansion": expansion})
    assert "nothing was found outside" in rag("expansion", "list", "-c", file).out

    config = load_config(file)
    documents = ExpandedDocuments(config, config.assistant.expansion)
    places = ["https://a.example/1", "https://a.example/[red]2\x1b[2J"]
    found = [Document(place, place, "Some text.", "Title") for place in places]
    one, two = documents.keep(found, "why?", "searxng")

    shown = rag("expansion", "list", "-c", file).out
    assert one.document_id in shown and "why?" in shown
    assert "[red]2" in shown and "\x1b" not in shown
    listed = json.loads(rag("expansion", "list", "-c", file, "--json").out)
    assert {r["place"] for r in listed} == set(places)

    assert one.document_id in rag("expansion", "remove", one.document_id, "-c", file).out
    again = refused("expansion", "remove", one.document_id, "-c", file)
    assert "rag expansion list" in again
    write_file(tmp_path)  # expansion is off; kept documents can still be deleted
    assert two.document_id in rag("expansion", "list", "-c", file).out
    assert "deleted 1 document" in rag("expansion", "clear", "-c", file).out
    assert not (tmp_path / "store" / "tiny" / "expansion").exists()


def test_gc_frees_what_expired(tmp_path):
    expansion = {"look_in": {"source": "folder", "path": "outside"}, "days_to_live": 2}
    config = load_config(write_corpus(tmp_path, assistant={"expansion": expansion}))
    old = ExpandedDocuments(config, config.assistant.expansion, lambda: 1_500_000_000.0)
    (kept,) = old.keep([Document("a.txt", "1", "Some text.", "A")], "why?", "folder")
    file = tmp_path / "tiny.yaml"
    dry = json.loads(rag("gc", "-c", file, "--dry-run", "--json").out)
    assert [r["name"] for r in dry if r["what"] == "expanded document"] == [kept.document_id]
    assert old.live() == [kept]
    rag("gc", "-c", file)
    assert old.live() == []
