"""Find the lists, steps and sections of a document that a question asks for, complete."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Document, Span
from rag_pipeline.imports import compiled

_LONGEST = 200_000
"""Maximum number of characters of a document whose lists are read."""
_MOST_CHARACTERS = 6_000
"""Maximum number of characters of a list in an answer."""
_NUMBERED = re.compile(r"[ \t]*(?:\(?\d{1,3}[.)]+|[Ss]tep \d+[.:]?|[Ss]chritt \d+[.:]?)[ \t]+\S")
_ITEM = re.compile(r"[ \t]*(?:[-*+•◦▪‣·–—][ \t]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]+[ \t])")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_STEPS = (
    r"\bhow (?:do|can|should|must|would) (?:i|we|you|one)\b|\bhow to\b|\bsteps?\b|\bprocedure\b|"
    r"\b(?:what|which) order\b|\border of\b|\binstructions?\b|"
    r"\bwhat do (?:i|we) (?:have to|need)\b|"
    r"\bwie (?:\w+ )?(?:ich|man|wir|wird|werden|geht|funktioniert)\b|schritt|\bablauf\b|"
    r"reihenfolge|anleitung|vorgeh|\bcomment\b|\bétapes\b|\bmarche à suivre\b|\bcómo\b|\bpasos\b|"
    r"步骤|怎么|如何|خطوات|كيف"
)
_SUMMARY = (
    r"\bsummar\w+|\boverview\b|\bwhat (?:is|was) (?:said|discussed|decided) about\b|"
    r"\bkey points\b|\bin (?:brief|short)\b|\bwhat is \S+(?: \S+)? about\b|\bzusammenfass\w*|"
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


class Section(NamedTuple):
    """Holds the headings above a section and the span of its text."""

    headings: tuple[str, ...]
    start: int
    end: int


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
    found: list[Block] = []
    headings: list[tuple[int, str]] = []
    before = ""
    items: list[Span] = []
    numbered = blank = False
    at = 0
    for line in [*text.splitlines(keepends=True), "\n", "#"]:
        start, at = at, at + len(line)
        words = line.strip()
        end = start + len(line.rstrip())
        is_item = bool(_ITEM.match(line))
        is_restart = bool(items) and is_item and numbered and _first_number(line) == 1
        goes_on = items and words and not is_item and (not blank or line[0] in " \t")
        if items and goes_on and not words.startswith(("#", "|")):
            items[-1] = (items[-1][0], end)
        elif (
            words
            and items
            and (not is_item or is_restart or bool(_NUMBERED.match(line)) != numbered)
        ):
            if len(items) > 1:
                above = "\n".join([*(heading for _, heading in headings), before])
                found.append(Block(tuple(items), above, numbered))
            items = []
        if is_item:
            numbered = bool(_NUMBERED.match(line)) if not items else numbered
            items.append((start + len(line) - len(line.lstrip()), end))
        elif words and not items:
            before = words if words.endswith(":") else ""
        if heading := _HEADING.match(words):
            headings = [h for h in headings if h[0] < len(heading[1])]
            headings.append((len(heading[1]), heading[2]))
        blank = not words
    return tuple(found)


def _first_number(line: str) -> int | None:
    digits = re.match(r"\s*\(?(\d+)", line)
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


def sections_of(text: str) -> list[Section]:
    """Return the sections of a text with Markdown headings, or one section without headings."""
    marks = list(re.finditer(r"(?m)^(#{1,6})[ \t]+(\S.*)$", text))
    ends = [*(m.start() for m in marks), len(text)]
    sections = [Section((), 0, ends[0])] if text[: ends[0]].strip() else []
    above: list[tuple[int, str]] = []
    for mark, end in zip(marks, ends[1:], strict=True):
        above = [a for a in above if a[0] < len(mark[1])]
        above.append((len(mark[1]), mark[2]))
        if text[mark.end() : end].strip():
            sections.append(Section(tuple(name for _, name in above), mark.end(), end))
    return sections


def summary_spans(words: Words, document: Document, most: int) -> list[Span]:
    """Return the leading sentence of each section, or all sentences of the section asked for.

    A section is asked for if its own heading has words of the question that the title lacks.
    """
    text = document.text[:_LONGEST]
    sections = sections_of(text)
    title = words.in_text("\n".join([document.title, *(sections[0].headings if sections else ())]))
    own = [words.share(words.in_text(" ".join(s.headings[-1:])) - title) for s in sections]
    best = max(own, default=0.0)
    spans: list[Span] = []
    for section, share in zip(sections, own, strict=True):
        if best and share < best:
            continue
        sentences = [
            (section.start + start, section.start + end)
            for start, end in sentence_spans(text[section.start : section.end])
        ]
        spans += sentences if best else sentences[:1]
    return spans[:most]
