"""Which documents hold, by their names."""

import shutil

import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Document, ScoredChunk
from rag_pipeline.search.standing import amendments, asks_for, lost, not_in_force, standings
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import write_corpus, write_documents


def test_names_and_folders_tell_drafts_old_versions_and_copies():
    assert standings(
        [
            "policies/travel_policy_2022_superseded.docx",
            "policies/travel_policy_2024.docx",
            "policies/archive/leave.md",
            "policies/leave.md",
            "archive/P2209_closed.zip/final_account.txt",
            "prices/price list DRAFT.csv",
            "prices/Preisliste (Entwurf).csv",
            "specs/pump-v2.md",
            "specs/pump-v3.md",
            "specs/motor-v1.md",
            "terms/boarding_v2_2025.docx",
            "terms/boarding_v3_2023.docx",
            "reports/annual-2022.pdf",
            "reports/annual-2023.pdf",
            "Copy of plan.txt",
            "minutes/2024-03-12_management.docx",
            "minutes/2024-06-18_management.docx",
            "invoices/invoice_2024-0417.pdf",
            "invoices/invoice_2025-0500.pdf",
            "legal/copyright.txt",
            "2023.txt",
            "2024.txt",
        ]
    ) == {
        "policies/travel_policy_2022_superseded.docx": "superseded",
        "policies/archive/leave.md": "superseded",
        "prices/price list DRAFT.csv": "draft",
        "prices/Preisliste (Entwurf).csv": "draft",
        "specs/pump-v2.md": "old version",
        "terms/boarding_v2_2025.docx": "old version",
        "reports/annual-2022.pdf": "old version",
        "Copy of plan.txt": "copy",
    }
    named = ["Refunds 2023.docx", "Refunds 2025.docx", "Budget 2024.xlsx", "minors - Copy.md"]
    assert not_in_force(named) == {"Refunds 2023.docx": "old version"}


OLD, NEW = "travel_policy_2022_superseded.docx", "travel_policy_2024.docx"


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What is the hotel limit at present?", False),
        ("What was the hotel limit in 2022?", True),
        ("What did the superseded policy say?", True),
        ("Was stand in der alten Richtlinie?", True),
        ("What is the hotel limit in 2024?", False),
        ("Compare the hotel limits of 2021 and 2023.", True),
        ("What was the hotel limit before?", True),
        ("How much higher is it than before the change?", True),
        ("What did the replaced policy say?", True),
        ("How many days before the trip is a hotel booked?", False),
        ("How old may a receipt be?", False),
        ("Wie alt darf ein Beleg sein?", False),
        ("Who gets a copy of the receipt?", False),
        ("How often are the company cars replaced?", False),
    ],
)
def test_a_document_loses_unless_the_question_asks_for_it(question, asked):
    assert asks_for(question, OLD) == asked
    assert lost(question, {OLD, NEW, "leave_draft.md"}) == ({} if asked else {OLD: NEW})
    assert lost(question, {OLD}) == {}


def test_a_final_version_holds_for_its_draft() -> None:
    ids = {"CAD_guide_DRAFT.docx", "CAD_guide_final.docx", "offer_v1.md", "offer_v2_final.md"}
    assert lost("Which coordinate system do models use?", ids) == {
        "CAD_guide_DRAFT.docx": "CAD_guide_final.docx",
        "offer_v1.md": "offer_v2_final.md",
    }
    assert not lost("Which one?", {"report draft.md", "final report.md"})


def test_a_later_draft_leaves_the_issued_version_in_force() -> None:
    ids = {"Refund 2023.docx", "Refund 2025.docx", "Refund 2026 DRAFT.docx", "Safety concept.md"}
    assert standings(ids) == {
        "Refund 2023.docx": "old version",
        "Refund 2026 DRAFT.docx": "draft",
    }


@pytest.mark.parametrize(
    ("question", "left_out"),
    [
        ("What does valeting cost in 2025?", {"draft v2", "copy", "2024", "2026"}),
        ("What did it cost in 2024?", {"draft v2", "copy", "2026"}),
        ("How did the price change from 2024 to 2025?", {"draft v2", "copy"}),
        ("What will it cost in 2026?", {"draft v2", "copy", "2024"}),
        ("What does the draft for 2025 say?", set()),
        ("What does v2 of 2025 say?", {"copy", "2024", "2026"}),
    ],
)
def test_a_year_asks_for_no_draft_or_copy_of_an_issued_version(question, left_out) -> None:
    names = {
        "Sales/Price list 2025.docx": "",
        "Sales/Price list 2024.docx": "2024",
        "Sales/old/Price list 2025 DRAFT v2.docx": "draft v2",
        "Sales/Price list 2025 - Copy.docx": "copy",
        "Sales/Price list 2026 DRAFT.docx": "2026",
    }
    assert {names[d] for d in lost(question, {*names})} == left_out


def test_a_question_may_name_the_version() -> None:
    assert asks_for("What did agreement v2 say?", "archive/agreement v2.txt")
    assert not asks_for("What did agreement v3 say?", "archive/agreement v2.txt")


@pytest.mark.parametrize(
    ("base", "title", "amending", "its_title", "is_amended"),
    [
        ("Supply Ropewalk.docx", "", "Amendment 1 Ropewalk Supply.txt", "", True),
        ("a7.pdf", "Supply agreement", "a8.pdf", "Amendment No. 1 to the supply agreement", True),
        ("lease.pdf", "", "lease Nachtrag 2.pdf", "", True),
        ("Ropewalk delivery note.txt", "", "Amendment 1 Ropewalk.txt", "", False),
        ("Supply Ropewalk.docx", "", "Ropewalk Supply prices.txt", "", False),
    ],
)
def test_an_amending_document_says_what_it_amends(base, title, amending, its_title, is_amended):
    chunks = [
        ScoredChunk(f"{name}#0-1", name, 0, 1, "x", 1.0, title=headed)
        for name, headed in ((base, title), (amending, its_title))
    ]

    assert amendments(chunks) == ({base: {amending}} if is_amended else {})


@pytest.mark.parametrize("other", ["deals/Lease Mill.md", "home/Lease Mill.md"])
def test_an_amendment_of_a_lease_amends_the_only_lease_of_its_folder(other):
    names = ("deals/Lease Unit 5.md", other, "deals/Nachtrag Lease.md")
    documents = [Document(name, name, "x") for name in names]

    amended = {"deals/Lease Unit 5.md": {"deals/Nachtrag Lease.md"}}
    assert amendments(documents, are_all=True) == (amended if other.startswith("home") else {})
    assert amendments(documents) == {}


def test_the_document_in_force_is_ranked_and_quoted_first(tmp_path):
    texts = {
        "travel_2022_superseded.md": "# Travel\n\nThe hotel limit is 95 euros a night in cities.",
        "travel_2024.md": "# Travel\n\nThe limit for each hotel night is now 115 euros, if paid.",
        "leave_draft.md": "# Leave\n\nEvery parent takes sixteen weeks of paid leave.",
        "food.md": "# Food\n\nThe canteen is open from noon until three.",
        "lease.md": "# Lease\n\n## 3 Rent\n\nThe monthly rent of the hall is 660 euros.",
        "lease amendment 1.md": "# Amendment 1\n\nIn section 3, 690 euros replace the figure.",
    }
    file = write_corpus(tmp_path, queries=None)
    shutil.rmtree(tmp_path / "documents")
    write_documents(tmp_path / "documents", texts)
    list(run(load_config(file)))
    corpus = Corpus.load(file)
    assistant = open_assistant([corpus])

    question = "What is the hotel limit a night in cities?"
    assert corpus.search(question)[0].document_id == "travel_2024.md"
    made = assistant.ask(question)
    assert {source.document_id for source in made.sources} == {"travel_2024.md"}
    left_out = "travel_2022_superseded.md is left out: superseded; travel_2024.md is in force"
    assert made.warnings == (left_out,)

    asked = assistant.ask("What was the hotel limit in 2022?")
    assert asked.sources[0].document_id == "travel_2022_superseded.md"
    assert "travel_2022_superseded.md may not be in force: superseded" in asked.warnings

    alone = assistant.ask("How many weeks of paid leave does a parent take?")
    assert alone.sources[0].document_id == "leave_draft.md"

    amended = assistant.ask("What is the monthly rent of the hall?")
    assert [source.document_id for source in amended.sources] == [
        "lease amendment 1.md",
        "lease.md",
    ]
    assert "lease.md is amended by lease amendment 1.md" in amended.warnings
