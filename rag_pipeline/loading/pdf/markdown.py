"""Write blocks as Markdown, and map each line to its page and box."""

import re
from collections.abc import Sequence

from rag_pipeline.loading.page_map import Box, PageMap
from rag_pipeline.loading.pdf.elements import Line, Page
from rag_pipeline.loading.pdf.hyphens import Hyphens
from rag_pipeline.loading.pdf.paragraphs import BULLET, Block
from rag_pipeline.loading.text import is_cjk

_LEADERS = re.compile(r"(?:\s?[.…·_]){5,}\s?")
_UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\xad]")
_BLANKS = re.compile(r"[ \t\u2000-\u200a\u202f\u3000]+")


def to_markdown(
    blocks: Sequence[Block], hyphens: Hyphens, pages: Sequence[Page]
) -> tuple[str, PageMap]:
    """Return the blocks as Markdown, and the page map of its lines."""
    writer = _Writer(pages)
    for block in blocks:
        writer.write(block, hyphens)
    sizes = tuple(page.displayed for page in pages)
    return "".join(writer.parts), PageMap(tuple(writer.starts), tuple(writer.boxes), sizes)


class _Writer:
    def __init__(self, pages: Sequence[Page]) -> None:
        self.parts: list[str] = []
        self.starts: list[int] = []
        self.boxes: list[Box] = []
        self._pages = pages
        self._length = 0
        self._before = ""

    def write(self, block: Block, hyphens: Hyphens) -> None:
        if block.kind == "table":
            self._table(block.lines[0])
            return
        texts = [clean(line.text) for line in block.lines]
        if block.kind == "item":
            texts[0] = BULLET.sub("- ", texts[0])
        text, offsets = _join(texts, block.breaks, hyphens)
        if not text.strip():
            return
        mark = "#" * block.level + " " if block.kind == "heading" and block.level else ""
        tight = block.kind == "item" and self._before == "item"
        start = self._begin("\n" if tight else "\n\n", block.kind) + len(mark)
        for place, (offset, line) in enumerate(zip(offsets, block.lines, strict=True)):
            self._place(start + offset if place else start - len(mark), line, line.top, line.base)
        self._add(mark + text)

    def _table(self, line: Line) -> None:
        assert line.table is not None
        rows = [[clean(cell).replace("|", "\\|") for cell in row] for row in line.table]
        start = self._begin("\n\n", "table")
        bases = line.row_bases
        for index, row in enumerate(rows):
            # Half a line below the base of the row above, its box ends.
            top = bases[index - 1] + 0.5 * line.size if index else line.top
            base = bases[min(index, len(bases) - 1)]
            self._place(start, line, min(top, base - line.size), base)
            written = f"| {' | '.join(row)} |"
            if index == 0:
                written += "\n|" + " --- |" * len(row)
            if index + 1 < len(rows):
                written += "\n"
            start += len(written)
            self._add(written)

    def _place(self, start: int, line: Line, top: float, base: float) -> None:
        self.starts.append(start)
        self.boxes.append(self._pages[line.page].box(line, top, base))

    def _begin(self, separator: str, kind: str) -> int:
        if self._length:
            self._add(separator)
        self._before = kind
        return self._length

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self._length += len(text)


def plain(block: Block, hyphens: Hyphens) -> str:
    """Return a block's lines as one line of plain text."""
    return _join([clean(line.text) for line in block.lines], set(), hyphens)[0]


def clean(text: str) -> str:
    """Remove control characters, shorten leader dots, and collapse blanks."""
    text = _UNWANTED.sub(lambda wrong: "\ufffd" if wrong[0] >= "\ud800" else "", text)
    text = _LEADERS.sub(" ... ", text)
    return _BLANKS.sub(" ", text).strip()


def _join(texts: Sequence[str], breaks: set[int], hyphens: Hyphens) -> tuple[str, list[int]]:
    """Join lines to one text, with line breaks before `breaks`. Also return each line's offset."""
    result, offsets = texts[0], [0]
    for index, text in enumerate(texts[1:], 1):
        if not text:
            offsets.append(len(result))
            continue
        if index in breaks:
            offsets.append(len(result) + 1)
            result = f"{result}\n{text}"
        elif result and is_cjk(result[-1]) and is_cjk(text[0]):
            offsets.append(len(result))
            result += text
        else:
            result = hyphens.joint(result, text)
            offsets.append(len(result) - len(text))
    return result, offsets
