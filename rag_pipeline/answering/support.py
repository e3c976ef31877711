"""Judge whether a passage supports a sentence, contradicts it, or does neither.

All facts of the sentence must be in the passage: amounts, numbers with units, periods, dates,
ordinals, names, and who does something to whom. A fact counts in the part of the passage that the
sentence is about. Numbers of clauses do not count.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal

from rag_pipeline.answering.polarity import contradicts
from rag_pipeline.answering.quantities.facts import facts, number_of, plain
from rag_pipeline.answering.quantities.numbers import read_number
from rag_pipeline.answering.quantities.values import Quantity, bound_of, states
from rag_pipeline.answering.reading import multilingual, sentence_vectors
from rag_pipeline.answering.slots import is_exchanged, is_misplaced
from rag_pipeline.answering.words import WORD, same_word, stems
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.loading.languages import language_of

Verdict = Literal["supported", "contradicted", "unsupported"]

_SIMILAR, _SIMILAR_ACROSS = 0.45, 0.84
"""Least cosine of a sentence to its passage: the packaged model, and e5 between languages."""


def judge(passage: str, sentence: str, share: float) -> Verdict:
    """Return the verdict about a sentence.

    If the facts are right, a sentence is supported if the passage has at least the share `share`
    (0 to 1) of its content words. Otherwise, a sentence of the passage must be similar. Between
    English and German, a common fact or word is enough. If there is none, the multilingual model
    of the extra `e5` compares the sentences. If `e5` is not installed, they are unsupported.
    """
    if not set(_CLAUSE.findall(sentence)) <= set(_CLAUSE.findall(passage)) | set(
        _HEADED.findall(passage)
    ):
        return "contradicted"
    passage, sentence = plain(passage), plain(sentence)
    language, said, held = language_of(passage), facts(sentence), _content(passage)
    words = _content(_without(sentence, said))
    if not words and not said:
        return "unsupported"  # "No" alone says nothing that a passage could support.
    verbatim = r"\s+".join(map(re.escape, sentence.rstrip(" .!\n").split()))
    if re.search(rf"(?:\A|[.!?]\s|\n\n)\s{{0,9}}{verbatim}(?:[.!?]|\s*\Z)", passage):
        return "supported"
    known = sum(_holds(held, word) for word in words)
    spoken = language_of(sentence)
    across = {language, spoken} == {"de", "en"} or (
        language in ("de", "en") and spoken is None and 2 * known <= len(words)
    )
    embed = multilingual() if across else sentence_vectors
    if contradicts(passage, sentence, embed if across else None):
        return "contradicted"
    wrong = _wrong_fact(passage, sentence, said)
    if wrong is None and is_exchanged(passage, sentence, across):
        wrong = "contradicted"
    if wrong is None and not across:
        right = [q for q in said if any(_is_equal(known, q) for known in facts(passage))]
        if is_misplaced(passage, sentence, right, language == "de"):
            wrong = "contradicted"
        elif language != "de" and not all(
            _holds(held, name.casefold()) for name in _INNER.findall(_without(sentence, said))
        ):
            wrong = "unsupported"
    if wrong is not None:
        return wrong
    if known >= share * len(words) if not across else said or known:
        return "supported"
    if embed is None:
        return "unsupported"
    spans = [passage[start:end] for start, end in sentence_spans(passage)]
    vectors = embed([*spans, sentence])
    alike = max((vectors[:-1] @ vectors[-1]).tolist(), default=0.0)
    return "supported" if alike >= (_SIMILAR_ACROSS if across else _SIMILAR) else "unsupported"


def _content(text: str) -> list[str]:
    return [word for word in WORD.findall(text.casefold()) if stems(word)]


def _holds(words: Iterable[str], word: str) -> bool:
    return any(same_word(word, held) for held in words)


def _without(text: str, taken: Sequence[Quantity]) -> str:
    for quantity in sorted(taken, key=lambda q: -q.start):
        text = f"{text[: quantity.start]} {text[quantity.end :]}"
    return text


# --- facts ---

_COMMA = re.compile(r"[;.](?!\d)|\n|,\s")
_IF = re.compile(r"(?i)\b(?:if|when|between|children|wenn|falls|sofern|zwischen|kinder)\b[^.]*$")
_RANGE = 30
"""Number of characters before the end of a range that may hold its begin."""
_FROM = re.compile(r"(\d+)(?::\d\d)?\s*(?:-|–|to|bis|until)\s*$")
_PART = 500
"""Number of characters on each side of a fact that its part of the passage may have."""
_MAY_BE_ABSENT = ("ORDINAL", "DAY", "RATE")


def _wrong_fact(passage: str, sentence: str, said: Sequence[Quantity]) -> Verdict | None:
    """Return "contradicted" if the passage has another value for a fact of the sentence.

    Return "unsupported" if the passage has no value of a fact's kind. Return None if all facts are
    right.
    """
    held = facts(passage)
    numbers = _numbers(passage, held)
    wrong: Verdict | None = None
    for fact in said:
        is_known = fact.kind != "MONEY" and _magnitude(sentence, fact) in numbers
        is_plain = fact.value[0] == "number"
        alike = [q for q in held if _dimension(q) == _dimension(fact)]
        equal = [q for q in alike if _is_equal(q, fact)]
        if equal:
            if _is_elsewhere(passage, sentence, fact, alike, equal):
                return "contradicted"
        elif alike:
            if not (is_plain and is_known) and not _is_in_range(passage, alike, fact):
                return "contradicted"
        elif fact.kind not in _MAY_BE_ABSENT:
            wrong = wrong if is_known else "unsupported"
    return wrong


def _numbers(passage: str, held: Sequence[Quantity]) -> set[Decimal | None]:
    """Return the numbers of a passage, and the differences of its counts: 7 for "31 of 38"."""
    plain_ones = {number_of(q.value) for q in held if q.kind == "NUMBER"} - {None}
    digits = {Decimal(number) for number in re.findall(r"(?<![\d.,])\d+(?![.,]?\d)", passage)}
    apart = {one - other for one in plain_ones for other in plain_ones if one and other}
    nth = {Decimal(q.value[1]) for q in held if str(q.value[0]).startswith("nth")}
    return {_magnitude(passage, q) for q in held} | digits | apart | nth


def _dimension(fact: Quantity) -> str:
    kind = str(fact.value[0])
    if kind.startswith("nth"):
        return "nth"
    if kind in ("date", "either date", "month"):
        return "date"
    if kind in ("months", "seconds") or kind.startswith("working"):
        return "duration"
    return fact.kind if fact.kind in ("MONEY", "NUMBER") else kind


def _is_equal(held: Quantity, fact: Quantity) -> bool:
    if _dimension(fact) == "nth":
        return held.value[1] == fact.value[1]
    if held.value[0] == "working day" and fact.value[0] == "seconds":
        return 86_400 * Decimal(held.value[1]) == fact.value[1]
    one, other = number_of(held.value), number_of(fact.value)
    if one is not None and other is not None:
        return one == other and len({held.value[0], fact.value[0]} - {"number"}) < 2
    return states(held.value, fact.value)


def _magnitude(text: str, fact: Quantity) -> Decimal | None:
    written = text[fact.start : fact.end]
    digits = re.search(r"\d+(?:[.,]\d+)?", written)
    if digits:
        return Decimal(digits.group().replace(",", "."))
    return number_of(fact.value) or read_number(re.split(r"[\s-]", written)[0])


def _is_in_range(passage: str, alike: Sequence[Quantity], fact: Quantity) -> bool:
    """Return whether a fact is in a range such as "7–9 a.m." or "if more than 30 days"."""
    for held in alike:
        if held.kind == "RATE" or len(held.value) != 2 or held.value[0] != fact.value[0]:
            continue
        value, end = Decimal(fact.value[1]), Decimal(held.value[1])
        bound = bound_of(passage, held)
        begin = passage.rfind(".", 0, held.start) + 1
        if bound and (value > end) == (bound == "least") and _IF.search(passage, begin, held.start):
            return True
        begin = max(0, held.start - _RANGE)
        first, size = _FROM.search(passage, begin, held.start), _magnitude(passage, held)
        if first and size and end * Decimal(first[1]) / size <= value <= end:
            return True
    return False


def _is_elsewhere(
    passage: str,
    sentence: str,
    fact: Quantity,
    alike: Sequence[Quantity],
    equal: Sequence[Quantity],
) -> bool:
    """Return whether another value of the fact's kind is nearer to the words of the sentence."""
    words = _content(_without(sentence, [fact]))
    near, other = (
        max((sum(_holds(_around(passage, q), w) for w in words) for q in some), default=0)
        for some in (equal, [q for q in alike if not _is_equal(q, fact)])
    )
    return other > near + 2 or (near == 0 and other > 1)


def _around(passage: str, fact: Quantity) -> list[str]:
    first, last = max(0, fact.start - _PART), fact.end + _PART
    begin = max((m.end() for m in _COMMA.finditer(passage, first, fact.start)), default=first)
    end = _COMMA.search(passage, fact.end, last)
    return _content(passage[begin : end.start() if end else last])


_CLAUSE = re.compile(
    r"(?i)(?:\b(?:article|clause|section|artikel|ziffer|absatz|paragra(?:f|ph))|§+)\s*(\d+(?:\.\d+)*)"
)
_HEADED = re.compile(r"(?m)^\W*(\d+(?:\.\d+)*)")
_INNER = re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][a-z][\w-]+")
