import pytest

from rag_pipeline.answering.facts import is_below_cause, kinds_asked, states, verdict

DURATION, DATE, AMOUNT, SHARE, LAW = "duration", "date", "amount", "share", "law"
PARTY = "party"


@pytest.mark.parametrize(
    "question, kind, stating, other",
    [
        ("How long is the term?", DURATION, "It lasts five (5) years.", "It is confidential."),
        ("From which day is a note needed?", DURATION, "From the third day on.", "Bring a note."),
        ("Wie lange gilt der Vertrag?", DURATION, "Er gilt zwei Jahre.", "Er gilt überall."),
        ("Welche Kündigungsfrist gilt?", DURATION, "Vierzehn Tage zum Monatsende.", "Schriftlich."),
        ("Wie hoch ist die Miete?", AMOUNT, "Sie beträgt 900 Euro.", "Sie ist monatlich fällig."),
        ("Wie viel Prozent fallen an?", SHARE, "Es sind 5 Prozent.", "Es fällt wenig an."),
        ("Why is it late?", "cause", "It is late owing to a fire.", "It comes on 9 March."),
        ("Warum ist zu?", "cause", "Zu, weil das Getriebe brach.", "Bis dahin gilt das Tor."),
        ("Welches Recht gilt?", LAW, "Es gilt deutsches Recht.", "Es gilt der Anhang."),
        ("Quelle est la durée du contrat ?", DURATION, "Il dure deux ans.", "Il est écrit."),
        ("Combien coûte la location ?", AMOUNT, "Elle coûte 50 euros.", "Elle est à payer."),
        ("Quelle loi s'applique ?", LAW, "La loi française s'applique.", "Voir l'annexe."),
        ("¿Cuánto tiempo dura el contrato?", DURATION, "Dura tres meses.", "Dura bastante."),
        ("¿Cuánto cuesta la entrada?", AMOUNT, "Cuesta 12 €.", "Cuesta poco."),
        ("¿Qué porcentaje se paga?", SHARE, "Se paga el 10 por ciento.", "Se paga luego."),
        ("可以借多久？", DURATION, "图书可借四周。", "图书可借。"),
        ("押金是多少？", AMOUNT, "押金为50欧元。", "押金须支付。"),
        ("什么时候免费？", DATE, "每月第一个星期日免费。", "对儿童免费。"),
        ("كم يكلف الاشتراك؟", AMOUNT, "الاشتراك 20 يورو.", "الاشتراك مطلوب."),
        ("How long is it paid?", DURATION, "Until the notice takes effect.", "It is paid in full."),
        ("Wie lange läuft er?", DURATION, "Er läuft bis zum Widerruf.", "Er läuft."),
        ("多长时间有效？", DURATION, "直到另行通知。", "有效。"),
        ("Name the parties of it.", PARTY, "It is made between Acme and Birch.", "It is long."),
        ("Wer sind die Parteien?", PARTY, "Geschlossen zwischen A und B.", "Er gilt."),
        ("Qui sont les parties ?", PARTY, "Conclu entre A et B.", "Il dure."),
        ("¿Quiénes son las partes?", PARTY, "Celebrado entre A y B.", "Es largo."),
        ("合同的当事人是谁？", PARTY, "甲方为某公司。", "合同有效。"),
        ("من هم أطراف العقد؟", PARTY, "أبرم بين شركتين.", "العقد مكتوب."),
        ("ما مدة العقد؟", DURATION, "المدة 3 سنوات.", "العقد مكتوب."),
    ],
)
def test_kinds_of_facts_are_read_in_six_languages(question, kind, stating, other):
    kinds = kinds_asked(question)
    assert kind in kinds
    assert states(stating, kinds)
    assert not states(other, kinds)


@pytest.mark.parametrize(
    "question", ["Who signs for the tenant?", "Wer unterschreibt?", "Qui signe ?", "谁签字？"]
)
def test_other_questions_ask_for_none(question):
    assert kinds_asked(question) == []
    assert states("anything", [])


@pytest.mark.parametrize(
    "question, sentence, said",
    [
        (
            "May the tenant assign part of the premises?",
            "6.1 The Tenant may not assign part of the Premises.",
            "No",
        ),
        ("Can the tenant sublet the floor?", "The Tenant may sublet the floor.", "Yes"),
        ("Must the tenant pay the rent?", "The Tenant shall pay the rent monthly.", "Yes"),
        ("May the licensee copy the runtime?", "The Licensee must copy the runtime.", "Yes"),
        # A permission is no duty.
        ("Must the tenant sublet the floor?", "The Tenant may sublet the floor.", None),
        # It depends.
        (
            "May the tenant sublet the floor?",
            "The Tenant may sublet the floor with the landlord's consent.",
            None,
        ),
        ("May the tenant sublet the floor?", "The Tenant may sublet the floor unless let.", None),
        # It says something else, or both.
        ("May the tenant sublet the floor?", "The Tenant may paint the floor.", None),
        (
            "May the tenant sublet the floor?",
            "The Tenant may sublet the floor and the sub-tenant may not sublet it.",
            None,
        ),
        ("May a party disclose the report?", "Neither party may disclose the report.", None),
        # No question with a modal verb at its start.
        ("How long may the tenant sublet the floor?", "The Tenant may sublet the floor.", None),
    ],
)
def test_only_what_is_certain_is_said(question, sentence, said):
    assert verdict(question, sentence) == said


@pytest.mark.parametrize(
    ("text", "is_below"),
    [
        ("Report\n\nCause\nThe plug was out. It is in.", True),
        ("## Ursache des Ausfalls\n\nEin Leck.", True),
        ("Cause\nThe plug was out.\n\nDamage: none.", False),
        ("Damage\nThe cause is open.", False),
        ("Reason\n" + "The plug was out of its socket. " * 50 + "\n\nNone.", False),
    ],
)
def test_the_paragraph_below_a_heading_gives_the_cause(text: str, is_below: bool) -> None:
    assert is_below_cause(text) == is_below
