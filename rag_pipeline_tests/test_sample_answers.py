"""Questions of the README to some of the sample's documents, answered without a model."""

import shutil
from pathlib import Path

import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, open_assistant
from rag_pipeline_tests.assistant.test_measured_is_served import ONE, RETRIEVER
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import write_file

DATA = Path(__file__).parent.parent / "data" / "documents"
HALVORSK = "agreements/nda/halvorsk-brennwater-mutual-nda-2023.md"
KESTREL = "agreements/leases/Kestrel House Level 3 Lease.docx"
EMPLOYED = (
    "agreements/employment/Marchetti_Employment_Agreement.docx",
    "agreements/employment/okonjo-reyes-contract.pdf",
    "agreements/employment/lindqvar-contract-2022.txt",
)
OTHERS = (
    "agreements/nda/Brennwater Pellwick Confidentiality Agreement.docx",
    "agreements/nda/tessavine-oakhurne-undertaking.txt",
)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory) -> Assistant:
    folder = tmp_path_factory.mktemp("answers")
    for document_id in (HALVORSK, KESTREL, *EMPLOYED, *OTHERS):
        (folder / "documents" / document_id).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DATA / document_id, folder / "documents" / document_id)
    corpus = Corpus.load(
        write_file(
            folder,
            queries=None,
            chunkings={"sentences_600": {"method": "sentences", "max_characters": 600}},
            embeddings={"minilm": {"provider": "minilm", "token_vectors": True}},
            retrievers={"discovery": RETRIEVER},
            rerankers={"maxsim": {"method": "maxsim", "weight": 0.4, "candidates": 20}},
            configurations=[ONE],
        )
    )
    list(run(corpus.config))
    return open_assistant([corpus])


@pytest.mark.parametrize(
    ("question", "document_id", "words"),
    [
        (
            "How long does confidentiality last under the Halvorsk NDA?",
            HALVORSK,
            "The obligations of confidence survive for three (3) years after expiry or termination",
        ),
        (
            "What is the monthly rent for Level 3 of Kestrel House?",
            KESTREL,
            "Base rent is USD 31,250 a month",
        ),
        (
            "What notice period does Tessavine's Head of Clinical Data owe?",
            EMPLOYED[2],
            "two (2) months’ written notice",
        ),
        (
            "Can the tenant of Kestrel House end the lease early?",
            KESTREL,
            "The Tenant may end this Lease at any time after the forty-eighth (48th) month",
        ),
    ],
)
def test_the_sentence_that_says_it_is_quoted(assistant, question, document_id, words):
    made = assistant.ask(question)
    assert made.answered
    assert len(made.sources) <= 3
    assert all(source.verified for source in made.sources)
    quoted = [s for s in made.sources if words in " ".join(s.text.split())]
    assert [s.document_id for s in quoted] == [document_id]


def test_notice_periods_are_compared_a_row_a_document(assistant):
    made = assistant.ask("Compare the notice periods of the employment agreements.")
    said = {row.document_id: row.text for row in made.table}
    assert "thirty (30) days" in said[EMPLOYED[0]]
    assert "three (3) months" in said[EMPLOYED[1]]
    assert "two (2) months" in said[EMPLOYED[2]]
