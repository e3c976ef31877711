from random import Random

import pytest

from rag_pipeline.datamodels import Document
from rag_pipeline.questions.facts import read_facts
from rag_pipeline.questions.wording import questions_of, with_name, without_name

SENTENCES: dict[str, set[str]] = {
    "The Supplier shall deliver the goods within thirty (30) days of the order.": {
        "Within what time must the Supplier deliver the goods after the order?",
        "How soon must the Supplier deliver the goods after the order?",
        "How quickly must the Supplier deliver the goods after the order?",
    },
    "Either party may terminate the contract upon thirty (30) days’ prior written notice.": {
        "Upon how much prior written notice may either party terminate the contract?"
    },
    "The Customer shall pay USD 5,000 for each rocket that flies.": {
        "How much must the Customer pay for each rocket that flies?",
    },
    "This Agreement shall remain in force for five (5) years from the first delivery.": {
        "For how long will the Agreement remain in force from the first delivery?",
        "How long will the Agreement remain in force from the first delivery?",
    },
    "A licence lasts for two (2) years after the first payment.": {
        "For how long does a licence last after the first payment?",
        "How long does a licence last after the first payment?",
    },
    "The Tenant shall not keep animals in the flat or the garden.": {
        "May the Tenant keep animals in the flat or the garden?",
    },
    "The Landlord shall insure the building, and may choose the insurer.": set(),
    "The arbitration decision shall be final and binding on the parties.": set(),
    "If the Tenant fails to pay the rent, the Landlord may end the lease.": set(),
    "If you wish to remove a picture, you can delete the post.": set(),
    "Session cookies are used to remember the items of a basket.": set(),
    "The amount of compression depends on the size of the input.": set(),
    "A guard is a person who watches the gate.": {"What is a guard?"},
    "The Seller may end the contract by giving ten (10) days written notice to the Buyer.": {
        "With how much written notice may the Seller end the contract?"
    },
    "A discount of 2 % of the price is granted for payment within seven days.": set(),
    "Goods may be returned within 30 days, provided that the box is closed.": set(),
    "Goods of the shop may be returned within 30 days with the receipt.": {
        "Within what time may goods of the shop be returned with the receipt?",
    },
    "The lamp is tested for 15 minutes each Monday and delivers green light.": set(),
    "I credit the delivery charge of £72 for the trouble.": set(),
    "The Officer begins within 24 hours.": set(),
    "The name must have ten letters.": set(),
    "Charts are not to be photocopied.": {"Can charts be photocopied?"},
    "The Owner may use the data of the Buyer solely for the purposes of the deal.": set(),
    "The old parser was not working for the files that I had.": set(),
    "A boat is not launched until the account is clear.": set(),
    "The late fee of £75 has been cancelled.": set(),
    "The Owner will confirm in writing the Owner’s destruction of the data.": set(),
    "The offer stays open for 60 days.": {
        "For how long does the offer stay open?",
        "How long does the offer stay open?",
    },
    "Ollie Sandercock moved to the third-year rate on 1 September 2026.": {
        "When did Ollie Sandercock move to the third-year rate?",
        "On what date did Ollie Sandercock move to the third-year rate?",
    },
    "The filters are changed every six weeks in the season and the sludge goes away.": set(),
    "Offers are made in writing and stay open for 60 days.": set(),
    "Requests to work abroad are made ten (10) days before travel and are decided by Legal.": set(),
    "The hire desk is not affected and closes at half past six as before.": set(),
    "A text message alone is not enough because coverage on the estuary is poor.": set(),
    "Between 1 April and 30 September repairs are done within three working days.": set(),
    "The cheapest from Pendarrow Heating was £5,950.": set(),
    "If anybody refuses, offer them the old deposit of £1,200 with the waiver.": set(),
    "The colour of the lid depends on the size of the input.": set(),
    "If the two limits are hit, the Landlord may end the lease.": set(),
    "The Agreement can not be amended unless both parties sign a paper.": set(),
    "The term shall mean .": set(),
    "The red valve contains the main part.": set(),
    "If valve is open in the morning, the Landlord may end the lease.": set(),
    "If users want to see the old house, the gate is open.": set(),
    "The red valve contains three small parts, and a lid holds them in a box.": set(),
    "The mode t supports three small parts of a box.": set(),
    "The red valve specifies three small parts of a box.": set(),
    "The contract shall be governed by, and construed in accordance with the laws of Iowa.": set(),
    "This Supply Agreement shall be governed by the laws of Iowa.": set(),
    "The Agreement may be amended only by a paper that both parties sign.": set(),
    "The Agreement shall expire two (2) years from the first delivery.": {
        "How long after the first delivery will the Agreement expire?"
    },
    "The Buyer agrees that the Tenant may not keep animals in the flat.": {
        "May the Tenant keep animals in the flat?"
    },
    "Halvorsk agrees. Halvorsk shall return every sample to the owner of the mine.": set(),
    "The rubber seal was tested in April 1968 at the mine.": {
        "When was the rubber seal tested at the mine?"
    },
    # An answer or a subject that only the text around it makes clear.
    "If you have a special question, you can go ask it there.": set(),
    "The long guide includes this in a chapter.": set(),
    "The sequence consists of ten moves and two rests.": set(),
    "The Owner neither represents nor shows any product of the firm.": set(),
    "The old plot shows the number of losses of a week.": set(),
    "A simple case is the sum of two numbers.": set(),
    "The rst class includes two tests of the number of losses.": set(),
    "If you omit the policy, the old cache is used.": set(),
    "If you want a copy, contact us and the office will help.": set(),
    "A cookie is used to do many of the tasks listed above.": set(),
    "The owner sublets up to thirty percent (30%) of the flat less five rooms.": set(),
    "The Customer shall not exceed EUR 900 in a calendar year.": set(),
    "Nobody may smoke in the flat at any time of day.": set(),
    "Breaches are told to the owner and the lead may close them.": set(),
    "The contract began on 3 May 2021 and was short in the end.": {
        "When did the contract begin?",
        "On what date did the contract begin?",
    },
    "Bookings must be cancelled at least two days before the event.": {
        "How long before the event must bookings be cancelled?"
    },
    "The board approved a yearly budget of 4,000 GBP for tools.": {
        "How much is the yearly budget for tools?"
    },
    "Present: Luis Prado, Ada Falk\n\nLuis will unplug the old rack on Saturday morning.": set(),
    "Dr Bevan orders the vaccines every Monday morning.": set(),
    "Dr Bevan treated him with an injection of salt.": set(),
    "Dr Bevan explained that the costs are too high.": set(),
    "Descale the boiler every three months.": {"How often should you descale the boiler?"},
    "The damage amounts to 18,400 GBP.": {"How much does the damage amount to?"},
    "Full-time staff receive 25 days of annual leave.": {
        "How many days of annual leave do full-time staff receive?"
    },
    "The parts delivered on 3 May 2021 were made of wood.": set(),
    "The lease runs for two (2) years and ends on the last day.": {
        "For how long does the lease run?",
        "How long does the lease run?",
    },
    "The lease of the flat runs for two (2) years from May and ends on the last day.": set(),
    "It must be paid within thirty days of the order at hand.": set(),
    "The open source run lasted thirty (30) days after the start.": {
        "How long did the open source run last after the start?"
    },
    "Stable releases are created about every 2 weeks by the team.": set(),
    "The parties may agree a thirty (30) days grace period in writing.": set(),
    "Once the Party no longer requires the data, it shall return them.": set(),
    "If applicable, the Landlord may end the lease of the flat.": set(),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_is_turned_into_a_question(sentence: str) -> None:
    expected = SENTENCES[sentence]
    text = f"the customer lost a licence session cookies.\n\n{sentence}\n"
    made = {
        question
        for fact in read_facts(Document("a.txt", "hash", text))
        for seed in range(30)
        for question in questions_of(fact, Random(seed))
    }
    assert expected <= made
    assert made == expected


def test_a_named_question_holds_the_name_once() -> None:
    made = {
        with_name("How long is the term?", "the Acme lease", Random(seed)) for seed in range(40)
    }
    assert made == {
        "How long is the term, according to the Acme lease?",
        "In the Acme lease, how long is the term?",
        "According to the Acme lease, how long is the term?",
    }


def test_a_document_that_speaks_of_itself_is_named_in_its_place() -> None:
    asked = "How long will the Agreement remain in force?"
    assert with_name(asked, "Acme’s NDA", Random(0)) == "How long will Acme’s NDA remain in force?"
    named = with_name(asked, "“Secrecy”", Random(0))
    assert "the Agreement remain" in named and "“Secrecy”" in named


ODD = (
    "Name: tool\nVersion: 3.1.6\nSummary: A tool for 30 days\n\n# Version: 3.1.6\n\nIt is new.\n",
    "The Buyer may reject a load if ten percent (10%) of the fruit is bruised.\n",
    "The details of the performance may be found here.\n",
    "The wax option is not used for screens. The wax option is new and red.\n",
    "JSON Schemas does not support any other key type than strings for objects.\n",
    "An alternative approach to wax is a bath of oil in the sun.\n",
    f"# Guide\n\nNew lines of text are not allowed within the wax.\n\n{'It is red. ' * 300}\n",
    "Furthermore you can prevent the collection of data by a setting.\n",
    "El inquilino debe pagar 500 euros al propietario durante los primeros 30 días del año.\n",
)


@pytest.mark.parametrize("text", ODD)
def test_no_question_is_made_of_what_gives_only_an_odd_one(text: str) -> None:
    facts = read_facts(Document("a.txt", "hash", text))
    assert [q for fact in facts for q in questions_of(fact, Random(0))] == []


def test_a_prohibition_is_asked_for_with_may_and_a_forecast_with_will() -> None:
    text = "The Firm will not sell any personal data. The Buyer must not assign this Agreement.\n"
    facts = read_facts(Document("a.txt", "hash", text))
    assert [next(questions_of(fact, Random(0))) for fact in facts] == [
        "Will the Firm sell any personal data?",
        "May the Buyer assign the Agreement?",
    ]


GERMAN = {
    "Der Mieter zahlt dem Vermieter eine Kaution von 900 Euro.": "Wie hoch ist die Kaution?",
    "Die Kündigungsfrist der Wohnung beträgt drei Monate.": (
        "Wie lang ist die Kündigungsfrist der Wohnung?"
    ),
    "Der Vermieter muss die Kaution innerhalb von sechs Monaten nach dem Auszug abrechnen.": (
        "Innerhalb welcher Frist muss der Vermieter die Kaution nach dem Auszug abrechnen?"
    ),
    "Der Mieter darf die Wohnung nicht vermieten.": "Darf der Mieter die Wohnung vermieten?",
    "Wenn ein Rohr in der Wohnung bricht, haftet der Vermieter für den Schaden.": None,
    "Die Mietkaution dient der Sicherung aller Ansprüche.": "Wozu dient die Mietkaution?",
    "Ein Werktag ist ein Tag mit Ausnahme der Sonntage.": "Was ist ein Werktag?",
    "Die Abteilung für Technik (AT) prüft alle Belege.": "Was bedeutet die Abkürzung AT?",
    "Sie können die Wohnung mit dem Schlüssel öffnen.": None,
    "Entsprechend kann der Mieter die Wohnung verlassen.": None,
    "Außerdem können Spiegel in der Wohnung hängen.": None,
    "Um eine Rechnung zu drucken, klicken Sie auf den roten Knopf.": None,
    "Das Programm xload zeigt den Verlauf der Last an.": None,
    "Falls der Käufer nicht zahlt, muss er die Ware an den Verkäufer geben.": None,
    "Der Käufer kann mit einer Frist von zwei Wochen kündigen.": None,
    "Falls die Pakete Dinge von anderen, im Lager befindlichen Paketen sind, ist das gut.": None,
    "Darin enthalten ist das Programm für den Versand.": None,
    "Der Käufer zahlt 40 % des Preises innerhalb von 14 Tagen nach der Lieferung.": (
        "Innerhalb welcher Frist zahlt der Käufer 40 % des Preises nach der Lieferung?"
    ),
    "Herrenlose Räder werden am 1. Juni 2025 vom Hof entfernt.": (
        "Wann werden herrenlose Räder vom Hof entfernt?"
    ),
    "Die Verwaltung holt drei Angebote bis zum 31. März 2025 ein.": (
        "Bis wann holt die Verwaltung drei Angebote ein?"
    ),
    "Die Arbeiten beginnen am 5. Mai 2025 und dauern drei Tage.": "Wann beginnen die Arbeiten?",
    "Der Verein zahlt dem Trainer 40 Euro pro Stunde.": (
        "Wie viel zahlt der Verein dem Trainer pro Stunde?"
    ),
    "Frau Demir bestellt neue Schlösser für den Keller.": None,
    "Die Leitung der Schule übernimmt Frau Vogel.": None,
    "Der Anteil der Windkraft lag bei 38 Prozent.": "Wie hoch war der Anteil der Windkraft?",
    "Die Praxis ist vom 4. bis zum 15. August 2025 geschlossen.": None,
    "Der Mieter darf keine Hunde in der Wohnung halten.": None,
    "Die Farbe der Wohnung wird nicht beim Mieten bezahlt und zählt zur Miete.": None,
    "Wenn an das Ende der Wohnung gesetzt wird, darf der Mieter das Haus verlassen.": None,
}  # fmt: skip


@pytest.mark.parametrize("sentence", GERMAN)
def test_german_documents_are_asked_about_in_german(sentence: str) -> None:
    text = f"der die das ein wenn falls um und ist nicht mit.\n\n{sentence}\n"
    facts = list(read_facts(Document("a.md", "hash", text, "Vertrag")))
    asked = [without_name(next(questions_of(fact, Random(0)), "")) for fact in facts]
    assert [*filter(None, asked)] == [GERMAN[sentence]] * (GERMAN[sentence] is not None)


@pytest.mark.parametrize(
    ("bare", "named"),
    [
        ("Wie hoch ist die Kaution?", "Wie hoch ist laut „Vertrag“ die Kaution?"),
        ("Darf der Mieter bauen?", "Darf laut „Vertrag“ der Mieter bauen?"),
        ("Was geschieht, wenn es brennt?", "Was geschieht laut „Vertrag“, wenn es brennt?"),
        ("Wie kann man bauen?", "Wie kann man laut „Vertrag“ bauen?"),
        ("Bis wann gilt das Angebot?", "Bis wann gilt laut „Vertrag“ das Angebot?"),
        ("Was steht‹ in @› über „Miete“?", "Was steht in „Vertrag“ über „Miete“?"),
        ("Was ‹enthält @|ist enthalten›?", "Was enthält „Vertrag“?"),
    ],
)
def test_a_german_question_names_its_document_after_the_verb(bare: str, named: str) -> None:
    assert with_name(bare, "“Vertrag”", Random(0), "de") == named
    assert without_name("Was ‹enthält @|ist enthalten›?") == "Was ist enthalten?"


def test_options_and_headed_sections_are_asked_for() -> None:
    text = (
        "# Tool\n\n  -a, --almost-all\n      List every entry but the first two.\n\n"
        "## Exit codes\n\nThe tool ends with a code of zero after each exit without an error.\n"
    )
    asked = [[*questions_of(f, Random(0))] for f in read_facts(Document("a.md", "h", text, "Tool"))]
    assert "What does the option --almost-all do‹ in @›?" in asked[0]
    assert "What is said about “Exit codes”‹ in @›?" in asked[2]
    assert asked[1] == ["Which option‹ of @› lists every entry but the first two?"]
    assert [len(wordings) for wordings in asked] == [2, 1, 2]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Do not skip hidden names of files.", "which option does not skip hidden names of files"),
        ("Copies a name to a list (if known). Fails.", "which option copies a name to a list"),
        ("Print each NAME of a file.", ""),
        ("Path to the file that it reads.", ""),
        ("zeigt alle Namen im Ordner an.", "welche Option zeigt alle Namen im Ordner an"),
        ("Alte Namen im Ordner zeigen.", "mit welcher Option kann man alte Namen im Ordner zeigen"),
        ("zeigt Namen (auch versteckte) im Ordner an.", ""),
        ("gleichbedeutend mit der Option --every im Ordner.", None),
        ("An alias for the option every.", None),
    ],
)
def test_an_option_is_asked_for_by_its_effect(said: str, expected: str | None) -> None:
    known = "der die das ein und ist nicht zur" if "Ordner" in said else "the and of is not a"
    text = f"# Folder tool\n\n{known}.\n\n  --all NAME\n      {said}\n\n"
    found = {f.kind: f.question for f in read_facts(Document("a.md", "h", text, "Folder tool"))}
    asked = without_name(found.get("purpose", ""))
    assert ("option" in found, asked) == (expected is not None, expected or "")
