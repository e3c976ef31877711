"""`rag demo` over the reader's own documents; `test_wheel` holds that of the sample."""

from pathlib import Path

from rag_pipeline_tests.testing.command_line import refused, said
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents


def test_the_demo_of_own_documents(here: Path) -> None:
    write_documents(here / "my rules", DOCUMENTS)
    shown = said("demo", "--folder", "my rules")
    assert sorted(path.name for path in here.iterdir()) == ["my rules", "rag-demo"]
    assert "\nFirst, all documents are read " in shown.partition("synthetic questions")[0]
    assert "synthetic questions" in shown
    assert "Serving release-000001" in shown
    answered, _, end = shown.partition("\nNext: ")
    assert "[1]" in answered.rpartition(" ask ")[2], "an answer with its source"
    assert end.startswith("rag ask 'your question'") and "Next" not in end and len(end) < 400
    assert "nothing to do: all " in said("demo", "--folder", "my rules")
    assert "rag-demo exists and is not a demo of sample" in refused("demo")
