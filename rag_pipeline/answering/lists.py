"""Find the complete lists, steps and sections of documents that a question asks for."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.imports import compiled
from rag_pipeline.loading.text import heading_paths, headings_above

_LONGEST = 200_000
"""Maximum number of characters of a document whose lists are read."""
_LONGEST_TITLE = 80
"""Maximum number of characters of a heading in plain text."""
_LONGEST_LEAD = 600
"""Maximum number of characters that are read below a heading."""
_FEW_SECTIONS = 2
"""Maximum number of sections of a document whose summary has all sentences."""
_MOST_CHARACTERS = 6_000
"""Maximum number of characters of a list in an answer."""
_NUMBERED = re.compile(
    r"[ \t]*(?:\(?\d{1,3}[.)]+|(?P<upper>(?:\d{1,2}\.){1,3})\d{1,2}|[Ss]tep \d+[.:]?|"
    r"[Ss]chritt \d+[.:]?)[ \t]+\S"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+•◦▪‣·–—][ \t]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]+[ \t])")
_HEADING = re.compile(r"[# \t]*(?P<title>\S.*)")
_INLINE = re.compile(r"(?<![\w.,])\(?(?P<number>\d{1,2})[.)][ \t\n]+(?=[^\W\d_a-zäöü]|[“\"„«])")
"""The number of a step within a paragraph, such as `2. Load the file.`"""
_STEPS = (
    r"\bhow (?:do|does|can|could|should|must|would|may|is|are|to)\b|\bsteps?\b(?!\s*\d)|"
    r"\b(?:procedure|sequence|(?:what|which|the) stages|in order|walk (?:me|us) through|what now|"
    r"der reihe nach)\b|"
    r"\b(?:what|which) order\b|\bwhat (?:has|needs|is) to be done\b|\border of\b|\binstructions?\b|"
    r"\bwhat (?:do|does|must|should)\b(?=[^?]{1,40}\b(?:have to|need to|do)\b)|"
    r"\bwhat (?:happens|do (?:i|we) (?:have to|need))\b|\bwas (?:ist zu tun|passiert|geschieht)\b|"
    r"\bwas\b(?=(?: \w+){1,3} (?:tun|machen)\b)|\bwas (?:tue|mache) ich\b|"
    r"\bwie (?:(?!oft|viele?|lange?|hoch|weit|schnell|groß|alt|teuer|früh|spät)\w+ )?"
    r"(?:ich|man|wir|wird|werden|geht|läuft|funktioniert|kann|können|muss|müssen)\b|"
    r"schritt|\bablauf\b|reihenfolge|anleitung|vorgeh|\bcomment\b|\bétapes\b|"
    r"\bmarche à suivre\b|\bcómo\b|\bpasos\b|"
    r"步骤|怎么|如何|خطوات|كيف"
)
_SEVERAL = (
    r"(?:which|what|who (?:are|were)|name|list|welche|was|wer sind|wie heißen|nenne|zähle|"
    r"quel(?:le)?s|qui sont|énumère|cuáles|quiénes|qué|enumera)\b|哪些|列出|ما هي"
)
_NO_PLURAL = r"(?!does\b|has\b|was\b|this\b|\w*[su]s\b)"
_PLURAL = (
    rf"(?:which|what) (?:{_NO_PLURAL}\w+ )?{_NO_PLURAL}\w{{3,}}s\b|(?:list|name) (?:all|the) |"
    r"welche (?!r\b)\w+(?:en|er|e|n|s)\b|nenne|quel(?:le)?s\b|(?:cuáles|qué \w+s)\b"
)
"""A question for things in the plural."""
_OPEN = (
    r"(?:what (?:(?:sort|kind)s? of |else )?(?:do|did|should|must|shall|can|may|is|are|"
    r"(?:has|have|needs?) to|belongs?|goes|\w+ (?:has|have|needs?) to)\b|"
    r"was (?:muss|müssen|soll|sollen|sollte|darf|dürfen|kann|brauch\w*|ist|sind|gehör\w+|kommt|"
    r"hat|haben)\b|que\b|qu['’]est-ce qu|qué\b)"
)
"""Matches a question with one or several answers, such as "What should I bring?"."""
_LATER = r"[,.;:!?–-] (?=\w+ (?:should|must|has|have|needs?|muss|müssen|soll|sollen)\b)"
"""Matches the punctuation before such a question in the middle of a sentence."""
_SUMMARY = (
    r"\bsummar\w+|\boverview\b|\bwhat (?:is|was) (?:said|discussed|decided) about\b|"
    r"\b(?:key|main) points\b|\bhauptpunkte\b|\bwichtigste\w* punkte\b|"
    r"\bin (?:brief|short)\b|\bwhat is \S+(?: \S+)? about\b|\bzusammenfass\w*|"
    r"\bfass\w*\b.*\bzusammen\b|\büberblick\b|\bworum geht\b|\brésum\w+|\bresum\w+|\baperçu\b|"
    r"总结|概述|摘要|ملخص|لخص"
)


class Block(NamedTuple):
    """The spans of a list's items. `above` has the headings and the line above the list."""

    items: tuple[Span, ...]
    above: str
    numbered: bool
    apart: bool = False
    """Whether text stands between the items, as between headings."""

    @property
    def span(self) -> Span:
        """Return the span of the whole list."""
        return self.items[0][0], self.items[-1][1]

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return the spans to quote."""
        return self.items if self.apart else (self.span,)

    @property
    def own(self) -> str:
        """Return the line or heading directly above the list."""
        return self.above.rpartition("\n")[2]

    def text(self, text: str) -> str:
        """Return the list's part of the document's text."""
        return "\n".join(text[start:end] for start, end in self.spans)


def asks_for_list(question: str) -> bool:
    """Return whether the first words of a question ask for several things."""
    return bool(compiled(_SEVERAL, re.IGNORECASE).match(question))


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for things in the plural, as in "which measures"."""
    return bool(compiled(_PLURAL, re.IGNORECASE).match(question))


def asks_openly(question: str) -> bool:
    """Return whether a question such as "What should I bring?" may have several answers."""
    return bool(compiled(rf"(?:^|{_LATER}){_OPEN}", re.IGNORECASE).search(question))


def asks_for_steps(question: str) -> bool:
    """Return whether a question asks how something is done."""
    return bool(compiled(_STEPS, re.IGNORECASE).search(question))


def asks_for_summary(question: str) -> bool:
    """Return whether a question asks for a summary."""
    return bool(compiled(_SUMMARY, re.IGNORECASE).search(question))


def subject(question: str) -> str:
    """Return a question without the words that ask for steps or a summary."""
    return compiled(f"{_STEPS}|{_SUMMARY}", re.IGNORECASE).sub(" ", question)


def lists_of(document: Document) -> tuple[Block, ...]:
    """Return the lists of a document that have at least two items, in order.

    A document of more than 200,000 characters has no lists.
    """
    return _lists(document.text) if len(document.text) <= _LONGEST else ()


@lru_cache(maxsize=64)
def _lists(text: str) -> tuple[Block, ...]:
    found = [*_of_lines(text), *_of_paragraphs(text), *_of_headings(text)]
    return tuple(sorted(found, key=lambda one: one.span))


class _Line(NamedTuple):
    """A line of a text, its span without white space, and whether it starts an item."""

    start: int
    end: int
    indent: int
    words: str
    is_item: bool
    number: int | None
    """The number of a numbered item, 0 for one without digits, or None."""


def _lines(text: str) -> Iterator[_Line]:
    at = 0
    for line in text.splitlines(keepends=True):
        indent, numbered = len(line) - len(line.lstrip()), _NUMBERED.match(line)
        upper = numbered["upper"] or "" if numbered else ""
        digits = re.match(r"\D*(\d+)", line.lstrip()[len(upper) :]) if numbered else None
        number = int(digits[1]) if digits else None
        end = at + len(line.rstrip())
        is_item = number is not None or bool(_ITEM.match(line))
        depth = indent + 2 * upper.count(".")  # 2.5.1 belongs to 2.5
        yield _Line(at + indent, end, depth, line.strip(), is_item, number)
        at += len(line)


def _of_lines(text: str) -> Iterator[Block]:
    """Yield the lists that start each item on a line of its own.

    Deeper items belong to the item above them. All lines between two consecutive numbers belong to
    the item of the first number, unless a heading is between them.
    """
    lines = list(_lines(text))
    following = _following(lines)
    title = before = ""
    items: list[Span] = []
    first = last = _Line(0, 0, 0, "", False, None)  # the first and the last item of the list
    blank = False
    for n, line in enumerate([*lines, _Line(len(text), len(text), 0, "#", False, None)]):
        if not line.words:
            blank = True
            continue
        is_heading = line.words.startswith("#")
        is_next = line.is_item and (line.number is None) == (first.number is None)
        if line.number is not None and last.number is not None:
            is_next = line.number != 1
        is_deeper = line.indent > first.indent + 1
        is_between = last.number is not None and following[n] == last.number + 1
        is_wrapped = not line.is_item and (not blank or is_deeper)
        goes_on = is_deeper if line.is_item else is_wrapped and line.words[0] != "|"
        if items and not is_heading and (goes_on or (is_between and line.number is None)):
            items[-1] = (items[-1][0], line.end)
        elif items and is_next:
            items.append((line.start, line.end))
            last = line
        else:
            if len(items) > 1:
                above = [*headings_above(text, items[0][0]), title, before]
                yield Block(tuple(items), "\n".join(filter(None, above)), first.number is not None)
            items = [(line.start, line.end)] if line.is_item else []
            first = last = line
        if not items:
            before = line.words if line.words.endswith(":") else ""
            if before or is_heading:
                title = ""
            elif _is_title(line.words):
                title = line.words  # a heading without marks, as in plain text
        blank = False


def _is_title(words: str) -> bool:
    """Return whether a line may be a heading that has no "#", as in plain text."""
    is_short = 0 < len(words) <= _LONGEST_TITLE
    return is_short and words[-1] not in ".;,|" and words[0] != "#" and "\n" not in words


def _following(lines: Sequence[_Line]) -> list[int | None]:
    """Return for each line the number of the next numbered item before the next heading."""
    found: list[int | None] = [None]
    for line in reversed(lines):
        ends = line.words.startswith("#")
        found.append(None if ends else found[-1] if line.number is None else line.number)
    return found[::-1]


def _of_paragraphs(text: str) -> Iterator[Block]:
    """Yield the steps within one paragraph, by their numbers."""
    at = 0
    above = ""
    for paragraph in text.split("\n\n"):
        start, at = at, at + len(paragraph) + 2
        title, above = above, paragraph if _is_title(paragraph) else ""
        starts = _numbers(paragraph)
        if not starts:
            continue
        end = len(paragraph.rstrip())
        if number := _INLINE.match(paragraph, starts[-1]):  # the last step is one sentence
            (_, end), *_ = sentence_spans(paragraph[number.end() :])
            end += number.end()
        ends = [*starts[1:], end]
        items = [
            (start + one, start + one + len(paragraph[one:end].rstrip()))
            for one, end in zip(starts, ends, strict=True)
        ]
        before = paragraph[: starts[0]].strip() if starts[0] <= _LONGEST_TITLE else ""
        over = filter(None, [*headings_above(text, items[0][0]), title, before])
        yield Block(tuple(items), "\n".join(over), True)


def _numbers(paragraph: str) -> list[int]:
    """Return the offsets of numbers in a paragraph that count up from 1, or []."""
    marks: list[int] = []
    for mark in _INLINE.finditer(paragraph):
        if int(mark["number"]) == len(marks) + 1:
            marks.append(mark.start())
    is_lines = all("\n" in paragraph[at - 1 : at] for at in marks[1:])
    return [] if len(marks) < 2 or is_lines else marks


def _of_headings(text: str) -> Iterator[Block]:
    """Yield each group of two or more headings that have the same parent heading, or no parent."""
    groups: dict[tuple[str, ...], list[Span]] = {}
    for at, path in heading_paths(text):
        line = _HEADING.match(text, at)
        if line is not None:
            groups.setdefault(path[:-1], []).append(line.span("title"))
    for path, items in groups.items():
        if len(items) > 1:
            yield Block(tuple(items), "\n".join(path), False, True)


def lists_for(
    question: str, words: Words, documents: Sequence[Document], steps: bool
) -> list[tuple[float, Document, Block]]:
    """Return the lists, likeliest first, each with its weighted share of the question's words.

    When lists are ordered, words in the line or heading directly above a list count twice. With
    `steps`, a tie goes to numbered or successive items. A further tie goes to the list with more of
    the question's words, including stop words such as "off", and then to the earlier document.
    """
    asked = words_of(question)
    found = []
    for rank, document in enumerate(documents):
        for block in lists_of(document):
            whole = block.text(document.text)
            if len(whole) > _MOST_CHARACTERS or (block.apart and not asks_for_list(question)):
                continue
            share = words.share(words.in_text(f"{document.title}\n{block.above}\n{whole}"))
            score = share + words.share(words.in_text(block.own))
            short = len(asked & words_of(f"{block.above}\n{whole}"))
            likely = (score, steps and block.numbered, short, -rank)
            found.append((likely, (share, document, block)))
    return [one for _, one in sorted(found, key=itemgetter(0), reverse=True)]


def end_of_lead(text: str, end: int) -> int:
    """Return the end of the first sentence below a heading, or of the heading if none follows."""
    below = text[end : end + _LONGEST_LEAD].lstrip()
    (_, length), *_ = sentence_spans(below) or [(0, 0)]
    start = text.find(below, end)
    return end if not length or below.startswith(("#", "|")) else start + length


def _sections(text: str) -> list[tuple[Sequence[str], Span]]:
    """Return the headings and the span of each section of a Markdown text."""
    marks = heading_paths(text)
    ends = [*(at for at, _ in marks), len(text)]
    sections: list[tuple[Sequence[str], Span]] = []
    if text[: ends[0]].strip():
        sections.append(((), (0, ends[0])))
    for (at, path), end in zip(marks, ends[1:], strict=True):
        line, _, rest = text[at:end].partition("\n")
        if rest.strip():
            sections.append((path, (at + len(line), end)))
    return sections


def summary_spans(words: Words, document: Document, most: int) -> list[Span]:
    """Return the spans of at most `most` sentences that summarize a document.

    These are the leading sentences of all sections, or all sentences of the section asked for. A
    document of at most two sections gives all its sentences. A section is asked for if its own
    heading has words of the question that the title lacks.
    """
    text = document.text[:_LONGEST]
    sections = _sections(text)
    title = words.in_text("\n".join([document.title, *(sections[0][0] if sections else ())]))
    own = [words.share(words.in_text(" ".join(h[-1:])) - title) for h, _ in sections]
    best = max(own, default=0.0)
    spans: list[Span] = []
    for (_, (first, last)), share in zip(sections, own, strict=True):
        if not best or share >= best:
            found = [
                (first + start, first + end) for start, end in sentence_spans(text[first:last])
            ]
            spans += found if best or len(sections) <= _FEW_SECTIONS else found[:1]
    return spans[:most]
