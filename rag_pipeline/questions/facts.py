"""Documents -> facts by rules for English and German, each with the sentence that states it.

Facts are durations, sums, percentages, dates, parties, definitions, sections with a heading, and
duties or permissions. Other languages give none; German gives what fixed forms can ask for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, get_args

from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, GoldSpan, Span
from rag_pipeline.evaluation.entities.values import Quantity, quantities
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.loading.text import without_links

FactKind = Literal[
    "duration", "amount", "percentage", "date", "party", "definition", "section", "rule"
]
KINDS: tuple[FactKind, ...] = get_args(FactKind)

_SENTENCE = (30, 500)
"""Minimum and maximum characters of a sentence."""
_SECTION = 500
_HEAD = 2_000
_NUMBERING = re.compile(
    r"(?:#{1,6}\s+|>\s+|[-*•·]\s+|(?:section|article|clause|§)\s*(?=\d))?"
    r"(?:\(?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Z]|[ivxIVX]{1,4})[.)]\s+|\d{1,3}(?:\.\d{1,3})+\s+)?",
    re.IGNORECASE,
)
_RUN_IN = re.compile(r"(?:\*{2}|_)?[A-Z][^.!?;:,]{2,50}[.:](?:\*{2}|_)?\s+(?=[A-Z])")
"""A heading on the same line as its clause: "Term. This Agreement …"."""
_ASIDE = re.compile(r"\s*\([^()]*[“”\"‘’][^()]*\)")
_MARKS = re.compile(r"\*{1,3}|(?<!\w)_|_(?!\w)|`")
_HEADING = re.compile(r"(?:(#{1,6})[ \t]+)?(?:\d{1,3}(?:\.\d{1,3}){0,3}[.)]?[ \t]+)?(.{3,80})")
_DEFINED = re.compile(
    r"[“\"]([A-Z][A-Za-z-]+(?:\s[A-Z]?[A-Za-z-]+){0,3})[”\"]\s+(?:means?|shall mean|refers? to)\b"
)
_IS_A = re.compile(
    r"((?:The\s+|An?\s+)?[A-Z][\w’'-]+(?:\s+(?:of\s+)?[\w’'-]+){0,3}?)\s+(?P<verb>is|are|was|were)\s+"
    r"(?:an?|the|one\s+of)\s+(?!same\b|must\b)\w+"
)
_RULE = re.compile(r"(?P<who>[^,;:]{3,80}?)\s(?:shall|must|may|will|can)\s+(?:not\s|never\s)?\w")
_DEICTIC = re.compile(
    r"(?:the\s+)?(?:it|they|he|she|we|you|i|this|these|those|that|there|here|such|one|another|some|"
    r"many|most|what|which|who|both|each|other|others|all|former|latter|same|following|above|"
    r"first|second|third|result|next|last|nothing|everything|in|on|at|by|for|if|as|when|where|"
    r"while|after|before|since|although|however|but|and|or|so|also|then|thus|his|her|its|their|"
    r"our|my|your)\b",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:between|by and among|entered into by)\s+(.{3,300})")
COMPANY = (
    "Inc|Ltd|Limited|LLC|LLP|LP|PLC|plc|GmbH|AG|SE|SA|NV|BV|Oy|AB|ApS|DAC|Corp|Corporation|Company|"
    "Holdings|Partners|Bank|Trust|Foundation|University|Association"
)
"""Last words of the names of companies and institutions."""
_MARKUP = re.compile(
    r"[|<>{}=\\^$]|__|::|--|https?:|www\.|@\w|\.{3}|…|^[\w-]+:\s|[“\"][^”\"]*$|^[^“\"]*”"
)
"""Characters of tables, code, forms, addresses and metadata, and half quotations."""
_NO_TOPIC = re.compile(
    r"[^\w\s,&’'()-]|\d|\bversions?\b|^(?:add|build|check|choose|configure|contribute|create|donate|"
    r"get|install|make|read|report|run|see|set|specif\w+|start|summari[sz]e|try|use|write)\b",
    re.IGNORECASE,
)
"""Marks, numbers and imperatives: what such a heading names is no topic."""
_SUM_OF = re.compile(
    r"\b(?:[Dd]ie|[Ee]iner?) (?P<noun>[A-ZÄÖÜ][\wäöüß-]+) (?:von|in Höhe von|beträgt|dauert)\s+"
    r"(?:höchstens |mindestens |maximal |bis zu |etwa )?$"
)
"""A feminine German noun before its value; its article in a question is "die"."""
_NAME = re.compile(rf"(?:[A-Z][\w&’'.-]*,?\s+){{1,6}}(?:{COMPANY})\b\.?")
EMPTY_HEADINGS = frozenset(
    "definitions introduction general miscellaneous overview background preamble recitals contents "
    "summary notes appendix annex schedule abstract conclusion references scope purpose "
    "signatures signature details about other history features usage "
    "description between and fixed added changed removed".split()
)
_KIND_OF: dict[str, FactKind] = {"MONEY": "amount", "PERCENTAGE": "percentage"}


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact, the span of the document that states it, and the parts of a question.

    `sentence` is the text of the span on one line without number and markup. `value` is the span of
    the answer in it, and `quantity` its value. `subject` is the defined term or the heading of a
    section. `names` are the parties.
    """

    kind: FactKind
    document_id: str
    start: int
    end: int
    sentence: str
    value: Span
    heading: str = ""
    quantity: Quantity | None = None
    subject: str = ""
    names: tuple[str, ...] = ()
    language: str = "en"

    @property
    def gold(self) -> GoldSpan:
        """Return the span of the document."""
        return GoldSpan(self.document_id, self.start, self.end)

    @property
    def answer(self) -> str:
        """Return the text of the answer."""
        return self.sentence[slice(*self.value)].strip()


def read_facts(document: Document) -> Iterator[StatedFact]:
    """Yield the facts of a document in order."""
    text = document.text
    language = language_of(text) or "en"
    if language not in ("en", "de"):
        return
    heading, level_start = "", -1
    spans = sentence_spans(text)
    small = frozenset(re.findall(r"\b[a-z]+\b", text))
    for number, (start, end) in enumerate(spans):
        raw = text[start:end]
        title = _heading_of(text, start, raw)
        if title is not None:
            # A title writes words large that the text writes small: "Payment Information".
            if language == "en":
                title = " ".join(_small(w, small | dictionary("en")) for w in title.split())
            heading, level_start = title, end
            continue
        if not _SENTENCE[0] <= end - start <= _SENTENCE[1]:
            continue
        begin = start + _prefix(raw)
        sentence = plain(text[begin:end])
        if not _is_said(sentence):
            continue
        # A fragment of a sentence, or of code, begins small or has no end.
        if not re.match(r"[“\"„]?[^\W\d_a-zäöü].*[.!?][)”“\"]?$", sentence):
            level_start = -1
            continue
        found = document.document_id, begin, end, _small(sentence, small)
        heading = "" if heading.casefold() == document.title.casefold() else heading
        if level_start >= 0 and _asks_for(heading):
            past = _section_end(spans, number, text)
            body = document.document_id, begin, past, plain(text[begin:past])
            if (
                body[3].endswith((".", ")"))
                and _is_said(body[3])
                and f"to {heading.split()[0].casefold()} " not in text
            ):
                whole = (0, len(body[3]))
                yield StatedFact(
                    "section", *body, whole, heading, subject=heading, language=language
                )
        level_start = -1
        if language == "de":
            yield from _sums(found, heading)
            continue
        quantities_said = list(_quantities(found, heading))
        yield from quantities_said
        defined = _DEFINED.match(sentence)
        if defined:
            meaning = (defined.end(), len(sentence))
            yield StatedFact("definition", *found, meaning, heading, subject=defined[1])
        elif (is_a := _IS_A.match(sentence)) and _is_name(is_a[1]):
            meaning = (is_a.end(1), len(sentence))
            yield StatedFact("definition", *found, meaning, heading, subject=is_a[0])
        elif not quantities_said and _RULE.match(sentence) and not _DEICTIC.match(sentence):
            yield StatedFact("rule", *found, (0, len(sentence)), heading)
        if start < _HEAD and (between := _BETWEEN.search(sentence)):
            names = tuple(dict.fromkeys(n.strip(" .") for n in _NAME.findall(between[1])))
            if len(names) >= 2:
                yield StatedFact("party", *found, between.span(1), heading, names=names)


def _is_name(subject: str) -> bool:
    """Return whether the subject of "… is a …" is a term: "A guard", "Google Analytics"."""
    words = subject.split()
    is_term = words[0] in ("A", "An") or (words[0] == "The" and "of" in words)
    return (is_term or all(w[0].isupper() for w in words)) and not _DEICTIC.match(subject)


def _is_said(sentence: str) -> bool:
    """Return whether a text is mainly words, unlike a signature line, figures or code."""
    if _MARKUP.search(sentence):
        return False
    words = re.findall(r"[^\W\d_]{2,}", sentence)
    return len(words) >= 4 and sum(map(len, words)) >= len(sentence) / 2


def _small(text: str, known: frozenset[str]) -> str:
    """Return a text with a small first word if the document also writes that word small."""
    first = text.partition(" ")[0]
    is_small = first.casefold() in known and (first.istitle() or len(first) == 1)
    return text[:1].lower() + text[1:] if is_small else text


def plain(text: str) -> str:
    """Return a sentence on one line without defining asides and Markdown."""
    return " ".join(_ASIDE.sub("", _MARKS.sub("", without_links(text))).split())


def _quantities(found: tuple[str, int, int, str], heading: str) -> Iterator[StatedFact]:
    every = quantities(found[3])
    for quantity in every:
        # A question about one of several sums in a sentence would be ambiguous.
        if sum(q.kind == quantity.kind for q in every) > 1:
            continue
        kind = _kind(quantity)
        if kind is not None:
            yield StatedFact(kind, *found, (quantity.start, quantity.end), heading, quantity)


def _sums(found: tuple[str, int, int, str], heading: str) -> Iterator[StatedFact]:
    """Yield the quantities of a German sentence with the noun that they measure."""
    for fact in _quantities(found, heading):
        if (said := _SUM_OF.search(fact.sentence[: fact.value[0]])) and fact.kind != "date":
            yield replace(fact, subject=said["noun"], language="de")


def _kind(quantity: Quantity) -> FactKind | None:
    if "percent" in quantity.value and Decimal(quantity.value[1]) in (50, 25, 75):
        return None  # the whole is often missing
    if quantity.kind != "TIME":
        return _KIND_OF.get(quantity.kind)
    unit = str(quantity.value[0])
    if unit in ("date", "either date"):
        return "date" if len(quantity.value) == 4 else None
    return "duration" if unit in ("months", "seconds") or unit.startswith("working") else None


def _prefix(raw: str) -> int:
    numbering = _NUMBERING.match(raw)
    at = numbering.end() if numbering else 0
    run_in = _RUN_IN.match(raw, at)
    return run_in.end() if run_in else at


def _heading_of(text: str, start: int, raw: str) -> str | None:
    if "\n" in raw.strip() or raw.rstrip()[-1:] in ".;,:?!":
        return None
    # The number may have become a sentence of its own: "## 2. Prices".
    line = text[text.rfind("\n", 0, start) + 1 : start + len(raw)]
    match = _HEADING.fullmatch(without_links(line).strip())
    if match is None:
        return None
    words = plain(match[2])
    is_short = len(words.split()) <= 8 and words[:1].isupper()
    return words if match[1] or is_short else None


def _asks_for(heading: str) -> bool:
    words = re.findall(r"[^\W\d_]{2,}", heading.casefold())
    is_topic = 0 < len(words) <= 8 and not _NO_TOPIC.search(heading)
    return is_topic and not set(words) <= EMPTY_HEADINGS and not _DEICTIC.match(heading)


def _section_end(spans: list[Span], number: int, text: str) -> int:
    first, end = spans[number]
    for start, past in spans[number + 1 :]:
        if past - first > _SECTION or _heading_of(text, start, text[start:past]) is not None:
            break
        end = past
    return end
