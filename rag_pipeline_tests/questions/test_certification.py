# ruff: noqa: E501
"""Questions that must not be asked are refused, each for its own reason; good ones pass."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.config import Lexical
from rag_pipeline.config.settings import DocumentsSource
from rag_pipeline.datamodels import Document, GoldSpan
from rag_pipeline.loading.quotes import Searchable
from rag_pipeline.loading.sources import Rejected, scan
from rag_pipeline.questions.certification import Certifier

ROOT = Path(__file__).parents[2] / "data" / "documents"
NDA = "agreements/nda/halvorsk-brennwater-mutual-nda-2023.md"
UNDERTAKING = "agreements/nda/tessavine-oakhurne-undertaking.txt"
CORVANNE = "agreements/nda/Corvanne_Quillmere_MNDA_executed.pdf"
LINDQVAR = "agreements/employment/lindqvar-contract-2022.txt"
OKONJO = "agreements/employment/okonjo-reyes-contract.pdf"
MCA = "agreements/services/oakhurne-corvanne-mca.md"
KESTREL = "agreements/leases/Kestrel House Level 3 Lease.docx"
EXPENSES = "policies/oakhurne/Expenses Policy.docx"
TRAVEL = "policies/halvorsk/travel-and-expense.md"
RESPONSE = "policies/brennwater/incident-response-plan.md"
RETENTION = "policies/corvanne/data-retention.html"
TIME_OFF = "policies/quillmere/time-off.html"
SAAS = "agreements/saas/Ledgerloom_Halvorsk_SaaS.pdf"
FOLIO = "agreements/saas/quillmere-folio-subscription-terms.html"
SDK = "agreements/licenses/corvanne-brennwater-sdk-licence.md"

SURVIVE = (NDA, "The obligations of confidence survive for three (3) years after expiry")
DAY_RATE_LIMIT = (
    MCA,
    "Invoices are issued monthly in arrears and are payable within forty-five (45)",
)
DEPOSIT = (KESTREL, "The Tenant shall provide a security deposit of USD 93,750")
RECEIPT = (TRAVEL, "An itemised receipt is needed for every expense above $25")
FORENSIC = (
    RESPONSE,
    "Logs and memory images are copied before anything is reinstalled and are kept for two (2) years",
)
SICK_NOTE = (TIME_OFF, "A doctor’s note is needed from the fifth (5th) consecutive day of absence")
ROYALTY = (
    SDK,
    "the Licensee shall pay a royalty of EUR 3.20 for each robot shipped with the runtime",
)
NOTICE = (
    LINDQVAR,
    "After the probationary period either party may end the employment by giving two (2) months",
)
PENALTY = (CORVANNE, "shall pay a contractual penalty of EUR 75,000")
CAMERAS = (
    RETENTION,
    "Recordings of the gate and loading dock cameras are overwritten after seventy-two (72) hours",
)
AVAILABLE = (SAAS, "The Provider shall keep the Service available for at least 99.9%")

AMBIGUOUS = [
    ("How long do the obligations of confidence survive after expiry or termination?", SURVIVE),
    ("For how many years do the obligations of confidence survive termination?", SURVIVE),
    ("After expiry, how long does the duty of confidence last?", SURVIVE),
    ("How long does it take until Confidential Information is destroyed after a request?",
     (CORVANNE, "Within fourteen (14) days of a written request")),
    ("Within what time of a written request must material be returned?",
     (CORVANNE, "Within fourteen (14) days of a written request")),
    ("How much written notice ends the employment after the probationary period?", NOTICE),
    ("How long is the probationary period?",
     (OKONJO, "The Company may extend it once, by no more than three (3) months")),
    ("What percentage of base salary is the annual discretionary bonus?",
     (OKONJO, "annual discretionary bonus of up to ten percent (10%) of base salary")),
    ("How soon are invoices payable?", DAY_RATE_LIMIT),
    ("For what percentage of each calendar month is the Service available?", AVAILABLE),
    ("Above what amount is a receipt needed for every expense?", RECEIPT),
    ("How long are memory images kept?", FORENSIC),
    ("How soon are affected customers notified of confirmation of a Severity 1 incident?",
     (RESPONSE, "Affected customers are notified within forty-eight (48) hours of confirmation")),
    ("How many days may be carried over?", (TIME_OFF, "Up to ten (10) days may be carried over")),
    ("For how many months is it forbidden to solicit an engineer?",
     (NDA, "During the term and for twelve (12) months afterwards, neither party shall solicit")),
    ("After how many weeks may paper be destroyed?", (RETENTION, "Paper vouchers may be destroyed four")),
    ("To what amount is each party’s total liability limited?",
     (MCA, "Each party’s total liability in a contract year is limited to")),
    ("How soon are claims submitted after the expense?",
     (EXPENSES, "Claims are submitted within forty-five (45) days of the expense")),
    ("How much is base salary a year?", NOTICE),
    ("What does “Confidential Information” mean?",
     (NDA, "“Confidential Information” means all non-public information")),
]  # fmt: skip
UNANSWERABLE = [
    ("How much does a parking space in the Lisbon garage cost?", DEPOSIT),
    ("How many vacation days do interns in Osaka receive?", SICK_NOTE),
    ("When was the submarine cable to Greenland laid?", CAMERAS),
    ("What percentage of the vineyard belongs to the founder?", AVAILABLE),
    ("How long is the warranty on the espresso machines?", FORENSIC),
    ("Who painted the ceiling of the boardroom?", PENALTY),
    ("How long do the obligations of confidence survive?", DEPOSIT),
    ("How much is the contractual penalty for each culpable breach?", CAMERAS),
    ("What is the royalty for each robot shipped with the runtime?", SURVIVE),
    ("How much must the Tenant provide as a security deposit?", NOTICE),
    ("How long are recordings of the gate cameras kept before they are overwritten?", ROYALTY),
    ("What amount must a tenant pay for damage to the lighthouse?", DEPOSIT),
    ("How soon must a leaking fuel tank be reported to the harbour master?", CAMERAS),
    ("When does the ferry from Eastmere leave on Sundays?", DAY_RATE_LIMIT),
    ("What percentage discount do students receive on the console?", ROYALTY),
    ("How much is paid for each consultant's hotel in Tokyo?", ROYALTY),
    ("What does “Force Majeure Lottery” mean?", SURVIVE),
    ("How much written notice ends the employment?", AVAILABLE),
    ("How much is the deposit for each robot?", SICK_NOTE),
    ("What penalty applies for late delivery of olives?", PENALTY),
]
LEAKING = [
    ("Incident Response Plan?", FORENSIC),
    ("What does the Travel and Expense Policy say?", RECEIPT),
    ("Corvanne Quillmere MNDA executed", PENALTY),
    ("Tessavine Oakhurne undertaking", (UNDERTAKING, "survive for ten (10) years after expiry")),
    ("What is in the Kestrel House Level 3 Lease?", DEPOSIT),
    ("Data Retention Policy Corvanne Compliance?", CAMERAS),
    ("What is the Lindqvar contract 2022?", NOTICE),
    ("Halvorsk Brennwater mutual NDA 2023?", SURVIVE),
    ("Which document is the Cloud Subscription Terms of Quillmere?", (FOLIO, "A subscription runs for one (1) year")),
    ("Do the obligations of the Halvorsk NDA survive for three (3) years?", SURVIVE, "three (3) years"),
    ("Is the security deposit of Kestrel House USD 93,750?", DEPOSIT, "USD 93,750"),
    ("Is a receipt needed for every expense above $25?", RECEIPT, "$25"),
    ("Is the contractual penalty EUR 75,000?", PENALTY, "EUR 75,000"),
    ("Are recordings of the gate overwritten after 72 hours?", CAMERAS, "seventy-two (72) hours"),
    ("Is the royalty EUR 3.20 for each robot shipped with the runtime?", ROYALTY, "EUR 3.20"),
    ("Are invoices payable within 45 days under the consulting agreement?", DAY_RATE_LIMIT, "forty-five (45) days"),
    ("Which two companies signed the NDA of 2023?", (NDA, "between **Halvorsk Marine Analytics, Inc.**"), "Halvorsk Brennwater"),
    ("Who signed the undertaking on clinical secrets?", (UNDERTAKING, "survive for ten (10) years after expiry"), "Tessavine Oakhurne"),
    ("On which level of which house is the office that is let?", DEPOSIT, "Kestrel House Level 3"),
    ("Is the Ledgerloom service available for at least 99.9% of a month?", AVAILABLE, "99.9%"),
]  # fmt: skip
GOOD = [
    ("How much is the contractual penalty for each culpable breach of clause 3?", PENALTY, "EUR 75,000"),
    ("How much is the royalty for each robot shipped with the runtime?", ROYALTY, "EUR 3.20"),
    ("After what time are recordings of the gate and loading dock cameras overwritten?", CAMERAS, "72 hours"),
    ("How much must the Tenant provide as a security deposit?", DEPOSIT, "USD 93,750"),
    ("For how long do the obligations of confidence survive, according to the Halvorsk Brennwater mutual NDA 2023?",
     SURVIVE, "three years"),
]  # fmt: skip


@pytest.fixture(scope="module")
def sample() -> list[Document]:
    found = scan(DocumentsSource(path=str(ROOT)), ROOT)
    return [source.load() for source in found if not isinstance(source, Rejected)]


@pytest.fixture(scope="module")
def certifier(sample: list[Document]) -> Iterator[Certifier]:
    with Certifier(sample, Lexical(text_weight=2)) as made:
        yield made


def candidate(sample: list[Document], planted) -> tuple[Any, ...]:
    query, (document_id, quote), *answer = planted
    text = next(d.text for d in sample if d.document_id == document_id)
    (found,) = Searchable(text).find(quote)
    # Gold is the sentence that the test quotes from.
    start, end = next(s for s in sentence_spans(text) if s[0] <= found[0] < s[1])
    return query, GoldSpan(document_id, start, end), *answer


@pytest.mark.parametrize(
    ("planted", "least"),
    [(AMBIGUOUS, 19), (UNANSWERABLE, 19), (LEAKING, 19)],
    ids=["ambiguous", "unanswerable", "leaking"],
)
def test_of_twenty_planted_bad_questions_at_least_nineteen_are_refused(
    planted, least: int, sample: list[Document], certifier: Certifier
) -> None:
    passed = [p[0] for p in planted if certifier.problem(*candidate(sample, p)) is None]
    assert len(planted) == 20
    assert len(planted) - len(passed) >= least, passed


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good[0][:40])
def test_good_questions_pass(good, sample: list[Document], certifier: Certifier) -> None:
    assert certifier.problem(*candidate(sample, good)) is None


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        (AMBIGUOUS[0], "ambiguous"),
        (UNANSWERABLE[0], "unanswerable"),
        (LEAKING[0], "leaks the title"),
        (LEAKING[9], "the question contains its answer"),
        (("How long is it?", (NDA, "survive for three (3) years after expiry"), "nine (9) days"),
         "unanswerable: the span does not hold the answer"),
    ],
)  # fmt: skip
def test_the_reason_is_said(planted, reason: str, sample, certifier: Certifier) -> None:
    assert certifier.problem(*candidate(sample, planted)).startswith(reason)


def test_a_value_that_an_amendment_states_again_is_ambiguous() -> None:
    text = "# Lease of the Mill\n\nThe Tenant shall pay a monthly rent of 2,850 pounds.\n"
    changed = "# Amendment 1 to the Lease of the Mill\n\nThe Tenant shall pay a monthly rent of 3,040 pounds.\n"
    lease = Document("lease_mill.md", "a", text, "Lease of the Mill")
    amendment = Document(
        "amendment_lease_mill.md", "b", changed, "Amendment 1 to the Lease of the Mill"
    )
    start = text.index("The Tenant")
    gold = GoldSpan(lease.document_id, start, len(text) - 1)
    query = "According to “Lease of the Mill”, how much monthly rent must the Tenant pay?"
    others = [
        Document(f"{n}.md", str(n), f"# Note {n}\n\nThe {n} boats sail on {n} May.\n")
        for n in range(2, 9)
    ]
    with Certifier([lease, *others], Lexical()) as certifier:
        assert certifier.problem(query, gold, "2,850 pounds") is None
    with Certifier([lease, amendment, *others], Lexical()) as certifier:
        problem = certifier.problem(query, gold, "2,850 pounds")
    assert problem == "ambiguous: amendment_lease_mill.md answers it as well"


def test_a_section_that_an_amendment_names_is_not_asked_about() -> None:
    text = "# Supply of fibre\n\n# 3 Price\n\nPrices are fixed until 31 December 2023.\n\n# 4 Term\n\nThe contract runs until 31 May 2027.\n"
    changed = "# Nachtrag 1\n\n1. Clause 3: from 2025 a load costs £31. It is fixed until 31 December 2026.\n"
    supply = Document("deals/supply_fibre.md", "a", text, "Supply of fibre")
    nachtrag = Document("deals/Nachtrag_supply.md", "b", changed, "Nachtrag 1")
    others = [Document(f"{n}.md", str(n), f"The {n} boats sail on {n} May.\n") for n in "cdefg"]

    def problem(certifier: Certifier, query: str, sentence: str, answer: str) -> str | None:
        start = text.index(sentence)
        gold = GoldSpan(supply.document_id, start, start + len(sentence))
        return certifier.problem(query, gold, answer)

    with Certifier([supply, nachtrag, *others], Lexical()) as certifier:
        price = problem(
            certifier,
            "According to “Supply of fibre”, until when are prices fixed?",
            "Prices are fixed until 31 December 2023.",
            "31 December 2023",
        )
        term = problem(
            certifier,
            "According to “Supply of fibre”, until when does the contract run?",
            "The contract runs until 31 May 2027.",
            "31 May 2027",
        )
    assert price == "ambiguous: deals/Nachtrag_supply.md may change this section"
    assert term is None
