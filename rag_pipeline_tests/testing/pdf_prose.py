"""Sentences to fill pages with: varied, seeded, and nobody else's."""

import random

_SUBJECTS = (
    "the harbour master", "a night watchman", "our second survey", "the northern pumping station",
    "the apprentice", "every instrument maker", "the committee", "a passing freighter",
    "the lighthouse keeper", "the orchard's oldest tree", "the archive", "the river commission",
)  # fmt: skip
_VERBS = (
    "records", "compares", "describes", "forgets", "calibrates", "measures", "protects",
    "inherits", "photographs", "reconstructs", "questions", "translates",
)  # fmt: skip
_OBJECTS = (
    "the temperature of the water", "an unexpected correspondence", "three independent ledgers",
    "the identification of migrating birds", "a considerable reservoir", "the western embankment",
    "a collection of unpublished letters", "the circumference of each millstone",
    "an arrangement of mirrors", "the municipal telegraph", "the concentration of salt",
)  # fmt: skip
_ENDINGS = (
    "before the tide turns", "although nobody asked for it", "at 14 stations in 1987",
    "with considerable patience", "in fewer than 120 days", "because the instructions demand it",
    "for the first time since the flood", "under a magnification of 40",
    "without further explanation", "as the regulations of the province require",
)  # fmt: skip


def sentence(chance: random.Random) -> str:
    words = (
        f"{chance.choice(_SUBJECTS)} {chance.choice(_VERBS)} {chance.choice(_OBJECTS)} "
        f"{chance.choice(_ENDINGS)}."
    )
    return words[0].upper() + words[1:]


def paragraph(chance: random.Random, least: int = 3, most: int = 6) -> str:
    return " ".join(sentence(chance) for _ in range(chance.randint(least, most)))


HEADINGS = (
    "Introduction", "Instruments and Stations", "Observations of the Estuary", "Sampling Plan",
    "Results by Season", "Limits of the Method", "Maintenance", "Costs and Schedules",
    "Comparison with Earlier Surveys", "Conclusion",
)  # fmt: skip
