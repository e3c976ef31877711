import pytest

from rag_pipeline.answering.polarity import contradicts


@pytest.mark.parametrize(
    ("passage", "same", "opposite"),
    [
        ("The pier is off limits to anglers.", "Anglers may not use the pier.",
         "Anglers may use the pier."),
        ("Skippers need not carry a flare.", "Carrying a flare is optional for skippers.",
         "Skippers must not carry a flare."),
        ("A crew may decline the toll card.", "A crew is not obliged to take the toll card.",
         "A crew has no right to decline the toll card."),
        ("No boat leaves without a pilot.", "Boats leave only with a pilot.",
         "Boats also leave without a pilot."),
        ("Berths are free unless a regatta is on.", "Berths are not free if a regatta is on.",
         "Berths are free even if a regatta is on."),
        ("The crane, which has no cabin, lifts buses.", "The crane lifts buses.",
         "The crane lifts no buses."),
        ("The lock takes at most six boats.", "Eight boats are too many for the lock.",
         "Eight boats fit into the lock."),
        ("The lamp must burn for at least two hours.", "The lamp must burn two hours or more.",
         "The lamp may burn for half an hour."),
        ("Der Steg ist bis zum Einbruch der Dunkelheit offen.",
         "Vor Einbruch der Dunkelheit ist der Steg nicht geschlossen.",
         "Der Steg ist erst nach Einbruch der Dunkelheit offen."),
        ("Die Gebühr entfällt für Segler.", "Segler zahlen keine Gebühr.",
         "Segler zahlen die Gebühr."),
        ("Der Wart ist nicht berechtigt, Boote zu verleihen.",
         "Der Wart darf keine Boote verleihen.", "Der Wart darf Boote verleihen."),
        ("Alle Boote außer dem Kutter sind versichert.", "Der Kutter ist nicht versichert.",
         "Der Kutter ist versichert."),
        ("Only divers may moor at the reef.", "Anglers may not moor at the reef.",
         "Anglers may moor at the reef."),
        ("The slip cannot be used until the tide is in.", "The slip is usable once the tide is in.",
         "The slip can be used before the tide is in."),
        ("A tug is faster than a ferry.", "A ferry is slower than a tug.",
         "A ferry is faster than a tug."),
        ("The chart is kept confidential.", "The chart must not be disclosed.",
         "The chart is disclosed to everyone."),
        ("A crew may cancel before the charter ended.",
         "Until the charter expired, a crew may cancel.",
         "A crew may cancel after the charter."),
        ("Do not turn off the lamp.", "The lamp must stay on.", "The lamp must be turned off."),
        ("The option to buy ends on 5 May.", "The option cannot be taken up after 5 May.",
         "The option may be taken up after 5 May."),
        ("Der Lotse riet vom Ankern ab.", "Der Lotse empfahl das Ankern nicht.",
         "Der Lotse empfahl das Ankern."),
    ],
)  # fmt: skip
def test_a_passage_contradicts_the_opposite_of_a_statement_alone(passage, same, opposite):
    assert (contradicts(passage, same), contradicts(passage, opposite)) == (False, True)


def test_a_long_passage_contradicts_only_statements_in_its_own_words():
    passage = (
        "The harbour office rents out nine berths in summer. No vessel may anchor in the fairway. "
        "Crews report their arrival by radio, and the office assigns a berth to each of them."
    )
    assert contradicts(passage, "Vessels may anchor in the fairway.")
    assert not contradicts(passage, "Ships are welcome to anchor near the old lighthouse.")
