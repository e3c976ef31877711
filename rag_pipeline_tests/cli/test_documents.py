"""`rag show` and `rag quarantine`, over documents that were read and not yet indexed."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from rag_pipeline.cli.console import did_you_mean
from rag_pipeline.cli.documents import coverage
from rag_pipeline.config import load_config
from rag_pipeline.indexing import document_rows, read_documents, text_warnings, update_documents
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag, refused, said
from rag_pipeline_tests.testing.corpora import write_corpus, write_documents, write_file

SAMPLE = Path(__file__).parents[2] / "data/documents/agreements/nda"
NAME = "Corvanne_Quillmere_MNDA_executed.pdf"


@pytest.fixture
def read(tmp_path: Path) -> Path:
    """Return a corpus file whose documents are loaded: a PDF of three pages, an empty file."""
    file = write_corpus(tmp_path)
    shutil.copy(SAMPLE / NAME, tmp_path / "documents")
    write_documents(tmp_path / "documents", {"old/empty.txt": "", "raw/web.log": "x"})
    documents = {"path": "documents", "exclude": ["raw/**", "*.tmp"]}
    file = write_file(tmp_path, documents=documents)
    update_documents(Workspace(load_config(file)))
    return file


def test_a_document_is_shown_whole_or_by_page(read: Path) -> None:
    whole = said("show", NAME, read)
    assert "; a .pdf file, 3 pages," in whole
    assert "0.0% unknown characters; text on 3 of 3 pages" in whole
    assert "in the language's dictionary, 0.0% of the words have over 25 letters" in whole
    third = rag("show", NAME, read, "--page", "2")
    assert "they survive without limit in time" in third.out
    assert "they survive without limit in time" not in rag("show", NAME, read, "--page", "1").out
    pages = [
        json.loads(rag("show", NAME, read, "--page", str(n), "--json").out)["text"]
        for n in (1, 2, 3)
    ]
    assert "".join(pages) == json.loads(rag("show", NAME, read, "--json").out)["text"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NAME, "--page", "4"), "has the pages 1 to 3"),
        (("nda/acme.txt", "--page", "1"), "has no pages"),
        (("nda/acne.txt",), "did you mean 'nda/acme.txt'?"),
        (("NDA txt",), "did you mean 'nda/acme.txt' or 'nda/cedar.txt'?"),
        (("old/empty.txt",), "'old/empty.txt' is in quarantine: empty: 0 bytes"),
        (("documents/old/empty.txt",), "'old/empty.txt' is in quarantine: empty: 0 bytes"),
        (("empty.txt",), "'old/empty.txt' is in quarantine: empty: 0 bytes"),
        (("old/emty.txt",), "did you mean 'old/empty.txt'?"),
        (("raw/web.log",), "'raw/web.log' is left out by 'raw/**' of documents.exclude in "),
    ],
)
def test_what_cannot_be_shown_is_said(read: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("show", *arguments, "-c", read)


def test_names_that_differ_only_in_case_are_all_suggested() -> None:
    end = "; did you mean 'default' or 'Default'?"
    assert did_you_mean("deafult", ["default", "other", "Default"]) == end


def test_the_quarantine_is_listed_and_forgotten_on_request(read: Path) -> None:
    listed = said("quarantine", read)
    assert "old/empty.txt  documents\n   empty: 0 bytes\n1 refusal." in listed
    assert json.loads(rag("quarantine", read, "--json").out) == [
        {"document_id": "old/empty.txt", "stage": "documents", "reason": "empty: 0 bytes"}
    ]
    workspace = Workspace(load_config(read))
    assert update_documents(workspace).quarantined == {}  # known already
    assert "1 refusal forgotten" in rag("quarantine", read, "--retry").out
    note = "1 in quarantine: `rag quarantine` names them"
    healthy = rag("doctor", "-c", read)
    assert (healthy.code, note in healthy.out) == (0, False)
    assert "no document is in quarantine" in rag("quarantine", read).out
    assert update_documents(workspace).quarantined == {"old/empty.txt": "empty: 0 bytes"}
    noted = rag("doctor", "-c", read)
    assert (noted.code, note in noted.out) == (0, True)
    held = len(workspace.documents().state())
    assert f": {held} current, 0 new or changed, 0 gone; {note}" in noted.out
    assert noted.out.endswith("all is well, with 2 notes\n"), "the other note: no release yet"


def test_documents_inside_archives_and_mails_are_counted(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, queries=None)
    with zipfile.ZipFile(tmp_path / "documents/more.zip", "w") as archive:
        for name in ("a.txt", "inner/b.txt"):
            archive.writestr(name, f"The text of {name} is short.")
    workspace = Workspace(load_config(file))
    update_documents(workspace)
    assert coverage(workspace) == "6 documents (2 of them in mails or archives): 6 indexed"


def test_doubtful_text_is_told(read: Path) -> None:
    workspace = Workspace(load_config(read))
    assert text_warnings(workspace) == []
    (document,) = read_documents(workspace, [NAME])
    quality = json.loads(str(document.metadata["text_quality"])) | {"replaced": 0.25, "unread": 2}
    metadata = {**document.metadata, "text_quality": json.dumps(quality)}
    document = replace(document, metadata=metadata)
    fingerprint = workspace.documents().state()[NAME].fingerprint
    rows = document_rows([document], fingerprint, {NAME: None})
    workspace.documents().replace([NAME], [rows])
    (line,) = text_warnings(workspace)
    assert line == (
        f"{NAME}: 25.0% of the characters are unknown to the file's fonts; "
        f"2 of 3 pages are images that were not read"
    )
    assert "2 of 3 pages are images that were not read" in rag("show", NAME, read).out
    assert "1 with doubtful text" in rag("doctor", read).out
