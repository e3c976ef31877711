"""Find the sentences of prose, contracts and lists by rules."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from rag_pipeline.datamodels import Span

_END = re.compile(
    r"""(?P<stop>[.!?…؟۔।]+) (?P<close>["'”’“»)\]}*_]*) (?P<gap>\s*)
      | [。！？；｡]+[」』”’）]*\s* | ؛\s*
      | ;\s+(?:(?:and|or)\s+)?(?=\([A-Za-z0-9]{1,4}\)\s)""",
    re.VERBOSE,
)
"""Matches a possible sentence end. A run of stops is one match, which keeps the time linear."""

_NUMBER = r"[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxlcIVXLC]{1,4})"
_UNIT_WORD = (
    r"(?:sections?|articles?|clause|chapter|part|item|exhibit|schedule|annex|appendix|paragraph|"
    r"rule|figure|table|§+)"
)
_UNIT = rf"{_UNIT_WORD}\s+"
_CLAUSE_HEADING = re.compile(
    rf"""(?:{_UNIT})?{_NUMBER}[)\]]?
      | (?:{_UNIT}{_NUMBER}[.)\]:]* | {_NUMBER}[.)\]]+ | \d{{1,3}}(?:\.\d{{1,3}})+)
        \s+ [^.!?;]{{1,50}}""",
    re.IGNORECASE | re.VERBOSE,
)
"""Matches the head of a numbered clause ("2." or "2. Term."), which starts the next sentence."""
LIST_ITEM = re.compile(
    rf"\s*(?:[-*+•◦▪‣·–—]\s|[#|>]|```|{_NUMBER}[.)\]]+\s|\d{{1,3}}(?:\.\d{{1,3}})+\s)"
)
_LETTER = re.compile(r"[^\W\d_]")
_LAST_WORD = re.compile(r"""(?<![^\s(\["“'‘])[^\W_](?:[^\W_]|[.'’-])*\Z""")

_ABBREVIATION = re.compile(
    r"""al|approx|assn|ave|blvd|bldg|ca|capt|cf|col|dept|dr|e\.g|eds|eqs?|esp|est|gov|hon|i\.e|ie|
    incl|maj|messrs|mrs?|ms|mt|prof|pres|rep|resp|rev|sen|sgt|st|subd|subsec|supp|viz|vs?|
    bspw|bzw|d\.h|evtl|ggf|inkl|sog|usw|vgl|z\.b|zzgl|mme|mlle|p\.ex|sra|srta|dña""",
    re.VERBOSE,
)
"""Matches abbreviations that never end a sentence."""
_BEFORE_NUMBER = re.compile(
    r"""arts?|ch|cls?|ed|exh?|figs?|max|min|nos?|nr|op|pp?|paras?|par|pts?|refs?|regs?|secs?|sect|
    sched|tel|vols?|ziff|abs|núm|pág|págs|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec""",
    re.VERBOSE,
)
"""Matches words that are abbreviations if a number follows."""
_MAYBE_LAST = re.compile(
    r"bros|co|corp|etc|gmbh|inc|jr|llc|ltd|ph\.d|plc|sr|(?:[^\W\d_]\.)*[^\W\d_]"
)
"""Matches abbreviations and initials that end a sentence only before an `_OPENER`."""
_OPENER = re.compile(
    r"""[\W_]{0,2}(?:A|After|All|An|And|Any|As|At|Because|Before|Both|But|By|During|Each|Either|
    Every|Except|For|From|Her?|His|However|I|If|In|Its?|Neither|No|Nothing|Notwithstanding|On|Or|
    Our|She|Since|So|Some|Subject|Such|That|The|Their|There|These|They|This|Those|To|Under|Unless|
    Until|Upon|We|When|Where|Whereas|While|With|Your?)\b""",
    re.VERBOSE,
)

_MONTH = re.compile(
    r"(?:jan(?:uar)?|jänner|feb(?:ruar)?|märz|apr(?:il)?|mai|juni?|juli?|aug(?:ust)?|"
    r"sept?(?:ember)?|okt(?:ober)?|nov(?:ember)?|dez(?:ember)?)\b",
    re.IGNORECASE,
)
_SPLIT = {
    re.compile(
        r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|teen|twenty|hundred|"
        r"(?:thir|for|fif|six|seven|eigh|nine)ty)$",
        re.IGNORECASE,
    ): re.compile(r"\(\d{1,3}\)\s"),
    re.compile(rf"(?<!\w){_UNIT_WORD}$", re.IGNORECASE): re.compile(r"\d{1,3}(?:\.\d)+"),
    re.compile(r"[^\W\d_]$"): re.compile(rf"\d{{1,2}}\.\s+{_MONTH.pattern}", re.IGNORECASE),
}
"""Patterns for the end and start of two lines of one sentence, such as "under clause / 10.2"."""
_LONGEST_WRAPPED_LINE = 200

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_HEADING = re.compile(r"#{1,6}[ \t]+\S[^\n]*")


def trim(text: str, start: int, end: int) -> Span:
    """Return the span of `text[start:end]` without outer white space. It may be empty."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    return end - len(piece[: end - start].lstrip()), end


def pieces_between(text: str, start: int, end: int, cuts: Iterable[int]) -> Iterator[Span]:
    """Yield the trimmed pieces of `text[start:end]` between ascending cuts. Omit blank pieces."""
    for cut in chain(cuts, [end]):
        if start < cut <= end:
            piece = trim(text, start, cut)
            if piece[0] < piece[1]:
                yield piece
            start = cut


def sentence_spans(text: str) -> list[Span]:
    """Return the trimmed sentences in order, in linear time.

    Sentences cover all text except white space. A sentence ends at its closing punctuation, at a
    blank line, and before a list item or numbered clause. It also ends at a line end, unless the
    line is wrapped. A line is wrapped if the next word would make it longer than the paragraph's
    longest line.
    """
    return [
        sentence
        for start, end in pieces_between(text, 0, len(text), hard_breaks(text))
        for sentence in pieces_between(text, start, end, sentence_ends(text, start, end))
    ]


def hard_breaks(text: str) -> Iterator[int]:
    """Yield the offset after each line end that ends a sentence, in ascending order."""
    at = 0
    paragraph: list[str] = []
    for line in [*text.splitlines(keepends=True), ""]:
        if line.strip():
            paragraph.append(line)
            continue
        width = max((len(held.rstrip()) for held in paragraph), default=0)
        for held, following in pairwise(paragraph):
            at += len(held)
            if _is_hard(held, following, width):
                yield at
        at += sum(map(len, paragraph[-1:])) + len(line)
        yield at
        paragraph.clear()


def _is_hard(line: str, following: str, width: int) -> bool:
    if width > _LONGEST_WRAPPED_LINE:
        return True
    if LIST_ITEM.match(following) and not _goes_on(line.rstrip(), following):
        return True
    return len(line.rstrip()) + 1 + len(following.split(maxsplit=1)[0]) <= width


def _goes_on(line: str, following: str) -> bool:
    return any(
        last.search(line) and first.match(following.lstrip()) for last, first in _SPLIT.items()
    )


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the start of each sentence after the first. A line end does not end a sentence."""
    begin = start
    for match in _END.finditer(text, start, end):
        if match.end() < end and (match["stop"] is None or _ends(text, begin, match)):
            begin = match.end()
            yield begin


def _ends(text: str, begin: int, match: re.Match[str]) -> bool:
    at, past = match.start(), match.end()
    following = text[past]
    if not match["gap"] or at == begin:
        return False
    if match["stop"].startswith("....") or (
        text[at - 1].isspace() and (text[at - 2] in ".…" or following in ".…")
    ):
        return False  # leaders to a page number: "Fees .... 12", "Fees . . . . 12"
    if following.islower() and _is_capitalised(text[begin : begin + 40]):
        return False
    if match["stop"] != ".":
        return True
    if at - begin <= 80 and _CLAUSE_HEADING.fullmatch(text, begin, at):
        return False
    last = _LAST_WORD.search(text[max(begin, at - 20) : at])
    word = last.group().casefold() if last else ""
    if word.isdecimal() and len(word) <= 2 and _MONTH.match(text, past):
        return False  # the day of a date: "am 31. Dezember"
    if _ABBREVIATION.fullmatch(word):
        return False
    if _BEFORE_NUMBER.fullmatch(word) and (len(word) > 1 or following.isdecimal()):
        return not following.isdecimal()
    if _MAYBE_LAST.fullmatch(word):
        return _OPENER.match(text, past) is not None
    return True


def _is_capitalised(head: str) -> bool:
    enumerator = LIST_ITEM.match(head)
    letter = _LETTER.search(head, enumerator.end() if enumerator else 0)
    return letter is not None and letter.group().isupper()


# --- lines of tables and code, headings ---


def whole_lines(text: str) -> list[Span]:
    """Return the sentences of a text, in linear time.

    Each table row and each line of fenced code is one sentence. A heading is joined with the next
    sentence.
    """
    spans: list[Span] = []
    begin = at = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        inside = bool(fence)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        if inside or mark or _ROW.match(line):
            spans += _sentences(text, begin, at)
            begin = at + len(line)
            spans += pieces_between(text, at, begin, ())
        at += len(line)
    return _with_headings(text, spans + _sentences(text, begin, len(text)))


def _sentences(text: str, start: int, end: int) -> list[Span]:
    return [(start + s, start + e) for s, e in sentence_spans(text[start:end])]


def _with_headings(text: str, spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    begin: int | None = None
    for number, (start, end) in enumerate(spans):
        begin = start if begin is None else begin
        if number < len(spans) - 1 and _HEADING.fullmatch(text, start, end):
            continue
        joined.append((begin, end))
        begin = None
    return joined


def follows_heading(text: str, start: int, cut: int) -> bool:
    """Return whether the last non-blank line of `text[start:cut]` is a heading."""
    end = cut
    while end > start and text[end - 1].isspace():
        end -= 1
    line = max(text.rfind("\n", start, end) + 1, start)
    return _HEADING.fullmatch(text, line, end) is not None
