"""Complete a question from earlier questions, by rules.

| earlier | question | complete |
|---|---|---|
| How many suppliers are in Porto? | and in Lyon? | How many suppliers are in Lyon? |
| What was the budget in 2023? | And 2024? | What was the budget in 2024? |
| How long does the Acme NDA last? | Who signed it? | Who signed it? (Acme NDA) |
"""

import re
from collections.abc import Sequence

from rag_pipeline.answering.halves import PREPOSITIONS
from rag_pipeline.answering.intent import key_entities

_LEAD = re.compile(
    r"(?:and|or|but|und|oder|et|ou|y|o)?\s*"
    r"(?:(?:what|how) about|wie (?:sieht|steht) es|(?:wie ist es|was ist)(?=\s+mit\b)|"
    r"qu['’]en est-il|qué tal)?"
    r"(?:\s*(?:mit|aus|de))?\s+",
    re.IGNORECASE,
)
_SLOT = (
    rf"\s+(?:(?:an?|ein\w*|une?|una)\s+[\w-]+(?:\s+(?!(?:{'|'.join(PREPOSITIONS)})\b)[\w-]+)?|"
    r"(?:(?:the|der|die|das|dem|den|le|la|les|el|los)\s+)?"
    r"(?:[^\W_a-z][\w.&-]*(?:\s+[^\W_a-z][\w.&-]*)*|\w+))"
)
"""After a preposition: a name, one word, or one or two words with an indefinite article."""
_ARTICLE = re.compile(r"(?:the|der|die|das|dem|den|le|la|les|el|los)\s+")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_POINTING = re.compile(
    r"\b(?:it|its|they|them|their|that|those|this|these|there|he|she|his|her|es|sie|er|ihn|ihm|"
    r"ihr|dort|dafür|davon|darin|deren|dessen|il|elle|ils|cela|ça|ello|eso|ella|allí)\b",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\b(?:(?:does|did|will|would) it (?:cost|take)\b(?=.* to \w+ \w)|"
    r"(?:does|did|will) it (?:rain|snow|freeze)\b|"
    r"(?:is|was|would|will) it (?:be )?(?:\w+ )?(?:allowed|permitted|forbidden|possible|necessary|"
    r"required|mandatory|legal|safe|worth|common|usual|easy|ok|okay)\b(?=.* (?:to|that) \w+ \w)|"
    r"(?:is|are|was|were) there(?= \w+ \w+ \w)|"
    r"(?:the|an?|any|every|all) (?:\w+ )?(?!(?:of|for|in|on|to|with|by) )\w+ that(?= \w+ \w)|"
    r"(?:do|does|did|can|may|must|will) (?!(?:it|they|he|she|th\w+|you|we|i)\b)"
    r"(?:the )?\w+ (?:\w+ ){0,6}(?:their|its|them|they)\b|(?:dauert|kostet|braucht) es(?=, \w+ \w)|"
    r"(?:regnet|schneit|gibt) es(?= \w)|"
    r"(?:ist|wäre|war) es (?:\w+ )?(?:erlaubt|verboten|möglich|nötig|üblich|gestattet|zulässig)"
    r"(?=, \w+ \w| .*\bzu \w)|(?:faut|y a-t|pleut)-il(?= \w)|"
    r"est-il (?:possible|permis|interdit|nécessaire)(?= d\w*['’ ]\w)|"
    r"(?:cuál|qué|quién|cuándo|dónde|cómo) es(?= \w))",
    re.IGNORECASE,
)
"""Pronouns that need no earlier question, with enough words after them, and Spanish "es" (is)."""


def complete(question: str, turns: Sequence[str]) -> str:
    """Return a question that is clear without `turns`, the earlier questions.

    A question that starts like "and in …?" replaces the same part of the previous question. If a
    question has a pronoun and no name, the names of the previous question are added. Without such
    names, the whole previous question is added. Pronouns of `_EXPLETIVE` do not count.
    """
    if not turns:
        return question
    before = complete(turns[-1], turns[:-1])
    lead = _LEAD.match(question)
    if lead and lead[0].strip():
        return _replaced(before, question[lead.end() :].strip().rstrip("?!. "))
    if _POINTING.search(_EXPLETIVE.sub("", question)) and not key_entities(question):
        return f"{question} ({', '.join(key_entities(before)) or before})"
    return question


def _replaced(before: str, part: str) -> str:
    """Replace the last part of the same kind, or all years, by `part`, or else append `part`."""
    year, names = _YEAR.fullmatch(part), key_entities(before)
    part = _ARTICLE.sub("", part, count=1) if _ARTICLE.match(part) else part
    first, _, rest = part.partition(" ")
    if year and _YEAR.search(before):
        return _YEAR.sub(part, before)
    if rest and first.casefold() in PREPOSITIONS:
        same = list(re.finditer(rf"\b{re.escape(first)}\b{_SLOT}", before, re.IGNORECASE))
        if same:
            return before[: same[-1].start()] + part + before[same[-1].end() :]
    elif part[:1].isupper() and names:
        return before.replace(names[-1], part)
    return f"{before.rstrip('?!. ')} {part}?"
