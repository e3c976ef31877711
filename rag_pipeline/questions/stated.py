"""A fact that a document states, with the parts of a question about it."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from rag_pipeline.answering.quantities.values import Quantity
from rag_pipeline.datamodels import GoldSpan, Span

FactKind = Literal[
    "duration", "amount", "percentage", "date", "definition", "section", "rule",
    "statement", "abbreviation", "option", "purpose", "variable", "term", "default", "cell",
]  # fmt: skip
KINDS: tuple[FactKind, ...] = get_args(FactKind)

_BOUND = re.compile(
    r"(?:\b(?:about|approximately|around|roughly|up to|at (?:least|most)|(?:not |no )?(?:more|less|"
    r"later) than|a (?:minimum|maximum) of|only|every|etwa|rund|circa|ca\.|mindestens|höchstens|"
    r"maximal|bis zu|nur|alle|jede[ns]?) )$",
    re.IGNORECASE,
)
"""The words before a value that bound it, or make it an interval."""
_RATE = re.compile(
    r" (?:(?:an?|per|each|every) (?:[a-z-]+ )??[a-z-]+|(?:im|am) (?:Jahr|Monat|Tag|Quartal)|"
    r"(?:je|pro) (?:[a-zäöüß]+e[rns]? ){0,2}[A-ZÄÖÜ][\wäöüß-]+|(?:täg|wöchent|monat|jähr)lich)\b"
)
"""The words after a value that make it a rate: "a year", "per hour", "je angefangene Stunde"."""


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact, the span of the document that states it, and the parts of a question.

    - `start`, `end`: the span in the document's text
    - `sentence`: the text of the span on one line, without numbering and markup
    - `value`: the span of the answer in `sentence`
    - `about`: the heading of the section and the title of the document
    - `quantity`: the value of a quantity, or None
    - `subject`: the defined term, abbreviation, option or heading, or ""
    - `question`: the question that the sentence's form gives, or ""
    - `section`: the heading above the sentence, or ""
    """

    kind: FactKind
    document_id: str
    start: int
    end: int
    sentence: str
    value: Span
    about: str = ""
    quantity: Quantity | None = None
    subject: str = ""
    language: str = "en"
    question: str = ""
    section: str = ""

    @property
    def gold(self) -> GoldSpan:
        """Return the span of the document that states the fact."""
        return GoldSpan(self.document_id, self.start, self.end)

    @property
    def said(self) -> str:
        """Return the part `value` of the sentence."""
        return self.sentence[slice(*self.value)].strip()

    @property
    def answer(self) -> str:
        """Return the part `value`, with the bound and the rate of a quantity."""
        start, end = self.value
        if self.quantity:
            bound, rate = _BOUND.search(self.sentence[:start]), _RATE.match(self.sentence, end)
            start, end = bound.start() if bound else start, rate.end() if rate else end
        return re.sub(r"\.{2,}$", ".", self.sentence[start:end].strip())
