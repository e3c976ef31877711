"""The cells of the notebook run in their order, in an empty folder."""

import json
from pathlib import Path

from rag_pipeline_tests.testing.checkout import ROOT
from rag_pipeline_tests.testing.forked import run

ASSERTIONS = """
assert found[0].document_id == "leave.md" and "third day" in found[0].text
assert "1,840 euro" in reply.text and reply.sources[0].document_id == "lease.md"
"""


def test_its_cells_run(tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "examples/first_hour.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(cells) == 5
    done = run("\n".join([*cells, ASSERTIONS]), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Serving release-000001" in done.stdout
