"""Join lines in reading order into blocks: paragraphs, list items, headings, notes and tables."""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import zip_longest
from typing import Literal

from rag_pipeline.loading.pdf.elements import Line, split

BULLET = re.compile(r"^([•◦‣▪▫■□●○➢➤✓✔❖·∗]|[o*–—-](?=\s))\s*(?=\S)")
_ITEM = re.compile(r"^(\(?(\d{1,3}|[a-z]|[ivx]{1,5})[.)]|\[[\w+]{1,8}\])\s+\S")
_CAPTION = re.compile(
    r"(?i)^(fig(ure|\.)?|table|tab\.|abbildung|tabelle|algorithm|listing|tableau|scheme)"
    r"\s*[A-Z]?\.?\d+[a-z]?\s*([:.|]|$|(?=[A-Z]))"
)
NUMBERED = re.compile(
    r"^((\d{1,2}(\.\d{1,2}){0,4}\.?)|([IVX]{1,5}\.)|([A-Z](\.\d{1,2}){0,3}\.?)|"
    r"(§+\s*\d+[\d.]*)|((Appendix|Chapter|Section|Part|Article|Annex|Schedule|Kapitel|Chapitre)"
    r"\s+[\dA-Z]+[.:]?))\s+\S"
)
NAMED = re.compile(
    r"(?i)(abstract|summary|introduction|references|bibliography|acknowledge?ments?|contents|"
    r"table of contents|conclusions?|discussion|results|methods?|background|related work|"
    r"keywords|appendix|appendices|index terms|limitations|executive summary)\W?"
)
_REAL_WORD = re.compile(r"[^\W\d_]{3}|[^\x00-\u024f]")
_MEASURE = re.compile(r"0|\d+\.0\b")
_NOTE_MARK = re.compile(r"^([∗*†‡§¶‖]+|\d{1,3})(?=\s*\S)")
_ENDS = re.compile(r"[.!?:;。！？؟][\"”’')\]]*\d{0,3}$")
_SMALL = 0.93
_BIG = 1.12
_MAX_HEADING_CHARACTERS = 220
_MAX_HEADING_WORDS = 26
_FLOATING = ("table", "caption")
_MAX_LABELS = 12
"""Maximum number of blocks in a figure, including its labels."""
_JUSTIFIED_LINES = 6
"""Minimum number of lines with the same end in justified text."""

Kind = Literal["text", "item", "heading", "caption", "note", "table"]


class Joint(Enum):
    """The relation of a line to the previous line."""

    JOIN = auto()
    """The line continues the text."""
    KEEP_BREAK = auto()
    """The line belongs to the block after a kept line break."""
    NEW_BLOCK = auto()


@dataclass(slots=True)
class Block:
    """The lines of one block, such as a paragraph or a heading."""

    kind: Kind
    lines: list[Line]
    level: int = 0
    breaks: set[int] = field(default_factory=set)
    """Indexes of the lines that follow a kept line break."""

    @property
    def last(self) -> Line:
        """Return the block's last line."""
        return self.lines[-1]

    @property
    def text(self) -> str:
        """Return the block's lines as one text, joined by blanks."""
        return " ".join(line.text for line in self.lines)


class Styles:
    """The usual size, weight and leading of a document's text."""

    def __init__(self, pages: Sequence[list[Line]]) -> None:
        sizes: Counter[float] = Counter()
        bold = total = 0
        leadings: defaultdict[float, list[float]] = defaultdict(list)
        for lines in pages:
            for before, line in zip([None, *lines[:-1]], lines, strict=False):
                if line.table is not None:
                    continue
                size = round(line.size * 2) / 2
                sizes[size] += len(line.text)
                total += len(line.text)
                bold += len(line.text) if line.bold else 0
                if before is not None and before.column == line.column and (
                    before.table is None and abs(before.size - line.size) < 0.5
                ):  # fmt: skip
                    step = line.base - before.base
                    if 0.8 * line.size < step < 2.5 * line.size:
                        leadings[size].append(step / max(line.size, 0.1))
        self.body = sizes.most_common(1)[0][0] if sizes else 10.0
        self.bold_body = bold > 0.5 * total
        self._leadings = {
            size: statistics.median(steps) for size, steps in leadings.items() if len(steps) > 2
        }

    def leading(self, size: float) -> float:
        """Return the usual distance between baselines of text with this size, in PDF points."""
        rounded = round(size * 2) / 2
        usual = self._leadings.get(self.body) or 1.2
        ratio = self._leadings.get(rounded) or usual
        if rounded > self.body:  # a heading has few lines and much space above it
            ratio = min(ratio, 1.15 * usual)
        return min(ratio, 2.4) * size


def blocks_of(pages: Sequence[list[Line]], heights: Sequence[float]) -> tuple[list[Block], Styles]:
    """Return a document's blocks in reading order, and its styles. Headings have no levels yet."""
    styles = Styles(pages)
    found: list[Block] = []
    notes: list[Block] = []
    floats: list[Block] = []
    for number, lines in enumerate(pages):
        body, page_notes = _split_notes(lines, styles, heights[number])
        blocks = _page_blocks(body, styles)
        for place, block in enumerate(blocks):
            target = found[-1] if found else None
            if target is not None and _continues(target, block, bool(floats)):
                offset = len(target.lines)
                target.lines += block.lines
                target.breaks |= {offset + place for place in block.breaks}
                found += floats
                floats.clear()
                continue
            unfinished = target is not None and _ends_mid_sentence(target)
            if target is not None and unfinished and (
                block.kind in _FLOATING or _continues_after_float(target, blocks[place + 1 :])
            ):  # fmt: skip
                floats.append(block)  # the text may continue after the table or caption
                continue
            found += floats
            floats.clear()
            if not unfinished or block.kind != "text":
                found += notes
                notes = []
            found.append(block)
        notes += page_notes
    return [*found, *floats, *notes], styles


def _ends_mid_sentence(block: Block) -> bool:
    is_prose = block.kind in ("text", "item") and len(block.lines) > 1
    return is_prose and not _ENDS.search(block.last.text)


def _continues_after_float(text: Block, later: Sequence[Block]) -> bool:
    seen = False
    for block in later[:_MAX_LABELS]:
        if seen and _continues(text, block, True):
            return True
        seen = seen or block.kind in _FLOATING
    return False


def _continues(before: Block, block: Block, over_floats: bool) -> bool:
    if block.kind != "text" or before.kind not in ("text", "item", "note"):
        return False
    one, two = before.last, block.lines[0]
    if one.page == two.page and one.column == two.column and not over_floats:
        return False
    if abs(one.size - two.size) > 0.06 * one.size or _ENDS.search(one.text):
        return False
    start = two.text[:1]
    if one.text.endswith("-") and (start.islower() or start.isdigit()):
        return True
    full = one.x1 > one.right - 2.5 * one.size or one.rtl
    if start.isupper() and start.isascii():
        # A capital may start a name. A new paragraph is indented, and a label has no full stop.
        flush = abs(two.x0 - two.left) < 0.4 * two.size or before.kind == "item"
        whole = len(block.lines) > 1 or bool(_ENDS.search(two.text))
        return full and flush and whole and len(before.lines) > 1 and one.bold == two.bold
    return full and (start.islower() or start in "()[“\"',;0123456789" or not start.isascii())


def _split_notes(
    lines: list[Line], styles: Styles, height: float
) -> tuple[list[Line], list[Block]]:
    """Split a page's lines into text and blocks of footnotes at the ends of columns."""
    taken: set[int] = set()
    blocks: list[Block] = []

    def begins(before: Line, line: Line) -> bool:
        far = line.base - before.base > 1.45 * styles.leading(line.size)
        return _marked(line) or far

    for column in _by_column(lines):
        start = len(column)
        largest = _SMALL * styles.body
        while start and column[start - 1].table is None and column[start - 1].size <= largest:
            start -= 1
        first = next(
            (
                i for i in range(start, len(column))
                if _marked(column[i]) and column[i].top > 0.35 * height
            ),
            None,
        )  # fmt: skip
        gap = start and start < len(column) and (
            column[start].base - column[start - 1].base > 1.5 * styles.leading(styles.body)
        )  # fmt: skip
        if gap and column[start].top > 0.5 * height:
            first = start if first is None else min(first, start)
        if first is None or _CAPTION.match(column[first].text):
            continue
        notes = column[first:]
        taken |= {id(line) for line in notes}
        blocks += [Block("note", note) for note in split(notes, begins)]
    return [line for line in lines if id(line) not in taken], blocks


def _by_column(lines: Iterable[Line]) -> list[list[Line]]:
    columns: defaultdict[int, list[Line]] = defaultdict(list)
    for line in lines:
        columns[line.column].append(line)
    return list(columns.values())


def _marked(line: Line) -> bool:
    return bool(line.marker and _NOTE_MARK.match(line.marker)) or bool(
        re.match(r"^[∗*†‡§¶‖]+\s*\w", line.text)
    )


def _limit_columns(lines: Sequence[Line]) -> None:
    """Set the right side of columns, which a table may have widened, to their justified lines."""
    for column in _by_column(line for line in lines if line.table is None and not line.rtl):
        ends = Counter(round(line.x1) for line in column)
        full = [
            end for end in ends if sum(ends[end + near] for near in (-1, 0, 1)) >= _JUSTIFIED_LINES
        ]
        end = max(full, default=0) + 1
        if full and sum(line.x1 > end for line in column) <= 2:
            for line in column:
                line.right = min(line.right, max(end, line.x1))


def _narrow(lines: Sequence[Line], styles: Styles) -> None:
    """Set the sides of lines in a block that is narrower than its column, such as an abstract."""

    def apart(before: Line, line: Line) -> bool:
        leading = styles.leading(max(line.size, before.size))
        near = 0 < line.base - before.base < 1.3 * leading + 1
        return line.column != before.column or line.table is not None or not near

    for run in split(lines, apart):
        left, right = min(line.x0 for line in run), max(line.x1 for line in run)
        full = sum(line.x1 > right - 0.5 * line.size for line in run)
        if len(run) >= 4 and full >= 0.5 * len(run):
            for line in run:
                line.left, line.right = left, right


def _page_blocks(lines: Sequence[Line], styles: Styles) -> list[Block]:
    _limit_columns(lines)
    _narrow(lines, styles)
    blocks: list[Block] = []
    for line, following in zip_longest(lines, lines[1:]):
        kind = _kind(line)
        joint = Joint.NEW_BLOCK
        if blocks and "table" not in (kind, blocks[-1].kind):
            joint = _joint(blocks[-1], line, kind, styles, following)
        if joint is Joint.NEW_BLOCK:
            blocks.append(Block(kind, [line]))
            continue
        if joint is Joint.KEEP_BREAK:
            blocks[-1].breaks.add(len(blocks[-1].lines))
        blocks[-1].lines.append(line)
    for block in blocks:
        if block.kind in ("text", "item") and _is_heading(block, styles):
            block.kind = "heading"
            block.breaks.clear()
    return blocks


def _kind(line: Line) -> Kind:
    if line.table is not None:
        return "table"
    if _CAPTION.match(line.text):
        return "caption"
    return "item" if BULLET.match(line.text) or _ITEM.match(line.text) else "text"


def _joint(block: Block, line: Line, kind: Kind, styles: Styles, following: Line | None) -> Joint:
    last = block.last
    if _is_apart(block, line, styles) or _differs_in_style(last, line, styles):
        return Joint.NEW_BLOCK
    size = max(line.size, last.size)
    indent = line.x0 - last.x0 if not line.rtl else last.x1 - line.x1
    room = last.right - last.x1 if not line.rtl else last.x0 - last.left
    short = room > line.first_width + 0.35 * size  # the last line has room for the first word
    if len(block.lines) == 1 and short and line.bold and _centred(last) and not _centred(line):
        return Joint.NEW_BLOCK
    step = line.base - last.base
    if kind == "caption" and step > 0:
        apart = short or step > 1.05 * _leading_before(block, size, styles)
        return Joint.NEW_BLOCK if apart else Joint.JOIN
    if kind == "item" and (short or _ENDS.search(last.text) or abs(indent) < 2 or indent < 0):
        marked = BULLET.match(line.text) or block.kind == "item" or short
        return Joint.NEW_BLOCK if marked else Joint.JOIN
    if block.kind == "item" and indent < -0.5 * size and short:
        return Joint.NEW_BLOCK
    centred = abs((line.x0 + line.x1) - (last.x0 + last.x1)) < size and abs(indent) > 2
    centred_heading = centred and size > _BIG * styles.body
    flush_gap = last.x0 - line.left if not line.rtl else last.right - last.x1
    indented = 0.7 * size < indent < 4.5 * size and abs(flush_gap) < 0.4 * size
    if block.kind == "text" and indented and not centred_heading:
        hanging = (
            following is not None
            and following.column == line.column
            and abs(following.x0 - line.x0) < 0.3 * size
        )
        if short or not hanging:
            return Joint.NEW_BLOCK
    if not short:
        return Joint.JOIN
    if _ENDS.search(last.text) and len(last.text) > 20:
        return Joint.NEW_BLOCK
    return Joint.JOIN if centred_heading else Joint.KEEP_BREAK


def _is_apart(block: Block, line: Line, styles: Styles) -> bool:
    """Return whether a line is on another page, in another column, or above or far below."""
    last = block.last
    if line.column != last.column or line.page != last.page:
        return True
    size, step = max(line.size, last.size), line.base - last.base
    return step > 1.22 * _leading_before(block, size, styles) + 1 or step < -0.5 * size


def _leading_before(block: Block, size: float, styles: Styles) -> float:
    leading = styles.leading(size)
    if len(block.lines) > 1:
        before = block.last.base - block.lines[-2].base
        leading = max(min(leading, before * 1.05), 0.9 * size) if before > 0 else leading
    return leading


def _differs_in_style(last: Line, line: Line, styles: Styles) -> bool:
    size = max(line.size, last.size)
    if abs(line.size - last.size) > 0.08 * size or line.bold != last.bold:
        return True
    small_capitals = last.text.isupper() and len(last.text) < 60 and last.size < 0.97 * styles.body
    return small_capitals and not line.text.isupper()


def _centred(line: Line) -> bool:
    before, behind = line.x0 - line.left, line.right - line.x1
    return before > 2 * line.size and abs(before - behind) < 0.5 * line.size


def _is_heading(block: Block, styles: Styles) -> bool:
    first = block.lines[0]
    text = block.text
    letters = sum(c.isalpha() for c in text)
    if (
        len(text) > _MAX_HEADING_CHARACTERS
        or len(text.split()) > _MAX_HEADING_WORDS
        or len(block.lines) > 4
        or letters < (2 if not text.isascii() else 3)
        or letters < 0.5 * len(text.replace(" ", ""))
        or BULLET.match(text)
        or not _REAL_WORD.search(text)
        or _MEASURE.match(text)
    ):
        return False
    start = next(c for c in text if c.isalnum())
    if first.size >= _BIG * styles.body:
        return not (start.islower() and not text[0].isdigit()) and (
            not text.endswith((",", ";")) and (not text.endswith(".") or len(block.lines) == 1)
        )
    if len(block.lines) > 3 or first.size < 0.74 * styles.body or len(text) > 140:
        return False
    named, numbered = NAMED.fullmatch(text), NUMBERED.match(text)
    if start.islower() or text.endswith((",", ";")) or (text.endswith(".") and not named):
        return False
    caps = text.isupper() and letters >= 4
    if first.size < 0.85 * styles.body and not caps:
        return False
    if (first.bold and not styles.bold_body) or (caps and letters >= 0.7 * len(text)):
        return not (text.endswith(":") and not numbered and not named and not first.bold)
    if named and len(block.lines) == 1:
        centred = abs(first.x0 - first.left) > 2 and (
            abs((first.x0 - first.left) - (first.right - first.x1)) < 3
        )
        return first.italic or centred or first.size > 1.03 * styles.body or bool(caps)
    return bool(numbered and first.italic and len(text) < 90 and len(block.lines) == 1)
