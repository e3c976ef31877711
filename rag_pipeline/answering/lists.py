"""Find the lists, steps and sections of a document that a question asks for, complete."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.imports import compiled
from rag_pipeline.loading.text import heading_paths

_LONGEST = 200_000
"""Maximum number of characters of a document whose lists are read."""
_HeadingsAt = Callable[[int], Sequence[str]]
"""Returns the headings above a place of a text, the outermost first."""
_LONGEST_TITLE = 80
"""Maximum number of characters of a heading in plain text."""
_FEW_SECTIONS = 2
"""Maximum number of sections of a document whose summary has all sentences."""
_MOST_CHARACTERS = 6_000
"""Maximum number of characters of a list in an answer."""
_NUMBERED = re.compile(r"[ \t]*(?:\(?\d{1,3}[.)]+|[Ss]tep \d+[.:]?|[Ss]chritt \d+[.:]?)[ \t]+\S")
_ITEM = re.compile(r"[ \t]*(?:[-*+•◦▪‣·–—][ \t]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]+[ \t])")
_INLINE = re.compile(r"(?<![\w.,])\(?(?P<number>\d{1,2})[.)][ \t\n]+(?=[^\W\d_a-zäöü]|[“\"„«])")
"""The number of a step within a paragraph, such as `2. Load the file.`"""
_STEPS = (
    r"\bhow (?:do|does|can|could|should|must|would|may|is|are|to)\b|\bsteps?\b|\bprocedure\b|"
    r"\b(?:what|which) order\b|\border of\b|\binstructions?\b|"
    r"\bwhat (?:do|does|must|should)\b(?=[^?]{1,40}\b(?:have to|need to|do)\b)|"
    r"\bwhat (?:happens|do (?:i|we) (?:have to|need))\b|\bwas (?:ist zu tun|passiert|geschieht)\b|"
    r"\bwas\b(?=(?: \w+){1,3} (?:tun|machen)\b)|\bwas (?:tue|mache) ich\b|"
    r"\bwie (?:\w+ )?(?:ich|man|wir|wird|werden|geht|funktioniert|kann|können|muss|müssen)\b|"
    r"schritt|\bablauf\b|reihenfolge|anleitung|vorgeh|\bcomment\b|\bétapes\b|"
    r"\bmarche à suivre\b|\bcómo\b|\bpasos\b|"
    r"步骤|怎么|如何|خطوات|كيف"
)
_SUMMARY = (
    r"\bsummar\w+|\boverview\b|\bwhat (?:is|was) (?:said|discussed|decided) about\b|"
    r"\b(?:key|main) points\b|\bhauptpunkte\b|\bwichtigste\w* punkte\b|"
    r"\bin (?:brief|short)\b|\bwhat is \S+(?: \S+)? about\b|\bzusammenfass\w*|"
    r"\bfass\w*\b.*\bzusammen\b|\büberblick\b|\bworum geht\b|\brésum\w+|\bresum\w+|\baperçu\b|"
    r"总结|概述|摘要|ملخص|لخص"
)


class Block(NamedTuple):
    """Holds a list of a document with its items, and the headings and line above it."""

    items: tuple[Span, ...]
    above: str
    numbered: bool

    @property
    def span(self) -> Span:
        """Return the span of the whole list."""
        return self.items[0][0], self.items[-1][1]


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
    """Return the lists with at least two items of a document, in order."""
    return _lists(document.text) if len(document.text) <= _LONGEST else ()


@lru_cache(maxsize=64)
def _lists(text: str) -> tuple[Block, ...]:
    paths = [(-1, ()), *heading_paths(text)]

    def headings_at(place: int) -> Sequence[str]:
        return paths[bisect_left(paths, place, key=itemgetter(0)) - 1][1]

    found = [*_of_lines(text, headings_at), *_of_paragraphs(text, headings_at)]
    return tuple(sorted(found, key=lambda one: one.span))


def _of_lines(text: str, headings_at: _HeadingsAt) -> Iterator[Block]:
    title = before = ""
    items: list[Span] = []
    numbered = blank = False
    at = 0
    for line in [*text.splitlines(keepends=True), "\n", "#"]:
        start, at = at, at + len(line)
        words = line.strip()
        end = start + len(line.rstrip())
        is_numbered = bool(_NUMBERED.match(line))
        is_item = is_numbered or bool(_ITEM.match(line))
        is_restart = bool(items) and is_item and numbered and _first_number(line) == 1
        goes_on = items and words and not is_item and (not blank or line[0] in " \t")
        if items and goes_on and not words.startswith(("#", "|")):
            items[-1] = (items[-1][0], end)
        elif words and items and (not is_item or is_restart or is_numbered != numbered):
            if len(items) > 1:
                above = "\n".join(filter(None, [*headings_at(items[0][0]), title, before]))
                yield Block(tuple(items), above, numbered)
            items = []
        if is_item:
            numbered = is_numbered if not items else numbered
            items.append((start + len(line) - len(line.lstrip()), end))
        elif words and not items:
            before = words if words.endswith(":") else ""
            if before or words.startswith("#"):
                title = ""
            elif len(words) <= _LONGEST_TITLE and words[-1] not in ".;,|":
                title = words  # a heading without marks, as in plain text
        blank = not words


def _of_paragraphs(text: str, headings_at: _HeadingsAt) -> Iterator[Block]:
    """Yield the numbered steps that follow each other within one paragraph."""
    at = 0
    for paragraph in text.split("\n\n"):
        start, at = at, at + len(paragraph) + 2
        marks: list[re.Match[str]] = []
        for mark in _INLINE.finditer(paragraph):
            if int(mark["number"]) == len(marks) + 1:
                marks.append(mark)
        if len(marks) < 2 or all("\n" in paragraph[m.start() - 1 : m.start()] for m in marks[1:]):
            continue
        starts = [mark.start() for mark in marks]
        after = marks[-1].end()
        (_, last), *_ = sentence_spans(paragraph[after:])
        ends = [*starts[1:], after + last]
        items = [
            (start + one, start + one + len(paragraph[one:end].rstrip()))
            for one, end in zip(starts, ends, strict=True)
        ]
        before = paragraph[: starts[0]].strip() if starts[0] <= _LONGEST_TITLE else ""
        above = "\n".join(filter(None, [*headings_at(items[0][0]), before]))
        yield Block(tuple(items), above, True)


def _first_number(line: str) -> int | None:
    digits = re.match(r"\s*\D{0,8}(\d+)", line)
    return int(digits[1]) if digits else None


def find_list(
    question: str, words: Words, documents: Sequence[Document], steps: bool
) -> tuple[float, Document, Block] | None:
    """Return the list that has the most words of a question, with their share.

    For `steps`, numbered lists come before other lists. Of equal lists, the list with more of the
    question's short words ("off") wins, and then the list of the earlier document.
    """
    asked = words_of(question)
    found = [
        (
            words.share(words.in_text(f"{document.title}\n{block.above}\n{whole}")),
            steps and block.numbered,
            len(asked & words_of(f"{block.above}\n{whole}")),
            -rank,
            document,
            block,
        )
        for rank, document in enumerate(documents)
        for block in lists_of(document)
        if (whole := document.text[slice(*block.span)]) and len(whole) <= _MOST_CHARACTERS
    ]
    if not found:
        return None
    best = max(found, key=lambda one: one[:4])
    return best[0], best[4], best[5]


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
    """Return the leading sentence of each section, or all sentences of the section asked for.

    A document of at most two sections gives all its sentences.
    A section is asked for if its own heading has words of the question that the title lacks.
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
