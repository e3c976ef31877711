"""Find the headings and sections of a text, and tell prose from code and tables."""

import re
from collections.abc import Iterator, Sequence, Set

from rag_pipeline.datamodels import Span
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.loading.text import headings, without_links
from rag_pipeline.questions.forms import CLAUSE_IN, NO_SUBJECT
from rag_pipeline.questions.words import either, word_list

_SECTION = (40, 1_500)
"""Minimum and maximum characters of a section that is gold."""
_LEAST_KNOWN = 0.7
"""A dictionary of the language must hold this share of a sentence's words."""
_CLAUSE = re.compile(
    r"(?:(?:Section|SECTION|Article|ARTICLE|§)\s*)?(?:\d{1,2}(?:\.\d{1,2})?\.?|[IVX]{1,4}\.)\s+"
    r"(?:\*{2}|_)?"
    r"(?P<heading>[A-ZÄÖÜ][\w’'-]*(?: (?:[A-ZÄÖÜ][\w’'-]*|[a-z]{1,3}|with|from|upon)){0,6})"
    r"[.:](?:\*{2}|_)?\s+(?=[A-ZÄÖÜ\d])"
)
"""The number and heading of a clause on its first line: "7. Governing Law. This Agreement …"."""
_ASIDE = re.compile(r"\s*\([^()]*[“”\"‘’][^()]*\)")
_MARKS = re.compile(
    r"```\w*|"
    r"\*{1,3}|(?<![\w`])_(?=[^\s_`][^_`\n]*_(?![\w`]))|(?<=[^\s_`])_(?![\w`])|`(?:_{1,2}(?!\w))?|\\(?=[_*\[\]])"
)
HEADING = re.compile(r"(?:(#{1,6})[ \t]+)?(?:\d{1,3}(?:\.\d{1,3}){0,3}[.)]?[ \t]+)?(.{3,80})")
_MARKUP = re.compile(
    r"(?<!\S)\+[^\W\d]\w+|\b(?:Sie|[Ss]elect|[Cc]hoose|[Pp]ress|[Oo]pen) [–-] |"
    r"[|<>{}=\\^$]|__|::|--|https?:|www\.|@\w|\.{3}|…|^[\w-]+:\s|[“\"][^”\"]*$|^[^“\"]*”|"
    r"\w[‐-] \w|\w\.\.\w|[\u0300-\u036f\u0370-\u03ff\u2190-\u23ff\ufffd]|\b(?:the|to|from|of|and|"
    r"or|by|your|our|for|with|in|on)[A-Z]|\s[.,;](?:\s|$)"
)
"""Characters of tables, code, forms, formulas, addresses and metadata, and broken words."""
_NO_TOPIC = re.compile(
    r"[^\w\s,&’'()-]|[\d_]|^(?!\w+ing\b)\w+ (?:the|a|your|our|this|its)\b|"
    r"\bversions?\b|\bnor\b|(?<!\w)(?!a\b)[^\W\d_](?!\w)|\b(?:examples?|beispiele?|links?|"
    r"quick ?start|getting started)\b|\s-\s|"
    r"\b(?:string|boolean|number|object|array|function)$|"
    rf"^(?:{either('no_topics')})\b(?! of\b)",
    re.IGNORECASE,
)
"""Marks, numbers and imperatives. A heading that holds one of them does not name a topic."""
OUTSIDE = re.compile(
    rf"\b(?:{either('outside')}|as follows|this (?:image|figure|picture|screenshot)|lesen Sie|"
    rf"(?:this|next|previous|last) chapter|(?:table|figure|equation|tabelle|abbildung) \d[\d.]*|"
    rf"(?:{either('tells')})ed (?:\w+ ){{0,2}}in|(?:this|dieser?s?) (?:{either('parts')}) "
    rf"(?:{either('tells')}|{either('holds')})\w*)\b|^(?:{either('goes_on')}|"
    r"(?:this|these|it|they|dies|es) (?:is|are|was|can|may|will|has|also|ist|sind|kann|wird))\b",
    re.IGNORECASE,
)
"""References to text outside of a section, and statements about the text itself."""
_PROMISES = re.compile(
    rf".*\b(?:has|have|are|hat|haben|gibt(?: es)?) (?:{either('counts')})\b[^.,;:]*\.|"
    rf"(?=.{{,400}}$)(?:There are|Es gibt) (?:{either('counts')}) "
    r"(?:ways|modes|methods|options|kinds|types|Möglichkeiten|Wege|Arten|Methoden)\b.*"
)
"""A text that ends with a number of things without them, or a short introduction to them."""
EMPTY_HEADINGS = frozenset(word_list("empty_headings"))


def sections_of(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, int, int, bool]]:
    """Yield each heading and the span of the text below, unless it has headings of its own.

    The last value tells whether the heading has a mark or the number of its clause. In a text with
    marked headings, other lines, such as an item of a list, only look like headings.
    """
    heading, begin, past, numbered, is_marked, depth = "", 0, 0, "", False, 0
    has_marks = next(headings(text), None) is not None
    for start, end in (*spans, (len(text), len(text))):
        raw = text[start:end]
        led = _CLAUSE.match(raw)
        mark = re.match("#*", text[text.rfind("\n", 0, start) + 1 : end])
        level = len(mark[0]) if mark else 0
        title = heading_of(text, start, raw) if level or not has_marks else None
        if title or led or not raw or level or (numbered and re.match(numbered, raw)):
            if (
                heading
                and _SECTION[0] <= past - begin <= _SECTION[1]
                and "![" not in text[begin:past]
                and not 0 < depth < level
            ):
                yield heading, begin, past, is_marked
            heading = led["heading"] if led else title or ""
            begin = past = start + led.end() if led else end
            # A subclause ends at the next one, and a clause only at the next clause.
            is_part = led is not None and re.match(r"\D*\d+\.\d", raw)
            numbered = rf"\d{{1,2}}\.{'(?:[0-9]{1,2}[.]?)?' if is_part else ''}\s" if led else ""
            is_marked, depth = led is not None or level > 0, level
        if re.search(r"[^\W\d_]{3}", raw):  # not just the next section's number
            past = end


def heading_of(text: str, start: int, raw: str) -> str | None:
    """Return the heading that the sentence `raw` of a text is, or None."""
    if "\n" in raw.strip() or raw.rstrip()[-1:] in ".;,:!":
        return None
    # The number before the heading may be another sentence: "## 2. Prices".
    line = text[text.rfind("\n", 0, start) + 1 : start + len(raw)]
    match = HEADING.fullmatch(without_links(line).strip())
    # A line that asks is a heading only with a mark, and as a whole.
    is_part = raw.rstrip()[-1:] == "?" and text[start + len(raw) :][:1] not in ("", "\n")
    if match is None or is_part or (raw.rstrip()[-1:] == "?" and not match[1]):
        return None
    words = plain(match[2])
    is_short = len(words.split()) <= 8 and words[:1].isupper()
    return words if match[1] or is_short else None


def asks_for(heading: str, language: str) -> bool:
    """Return whether a heading names a topic that a question of this language may name."""
    words = re.findall(r"[^\W\d_]{2,}", heading.casefold())
    own, other = dictionary(language), dictionary("en" if language == "de" else "de")
    # A short word, such as "Format", seldom names a topic.
    is_short = len(words) < 2 and not re.fullmatch(r"[^\W\d_]{8,}(?<!ed)", heading)
    return not (
        is_short
        or len(words) > 8
        or heading.isupper()
        or NO_SUBJECT.match(re.sub(r"^\w+ing\b", "x", heading))
        or _NO_TOPIC.search(heading)
        or CLAUSE_IN.search(heading)
        or set(words) <= EMPTY_HEADINGS
        or any(word in other and word not in own for word in words if len(word) > 2)
    )


def is_about(heading: str, body: str, language: str) -> bool:
    """Return whether a section is complete prose and uses the words of its heading."""
    said = {word.casefold()[:4] for word in re.findall(r"[^\W\d_]{3,}", body)}
    asked = [w.casefold()[:4] for w in re.findall(r"[^\W\d_]{4,}", heading)]
    return (
        not (OUTSIDE.search(body) or _PROMISES.fullmatch(body))
        and re.fullmatch(r"[^a-zäöü].*(?:\.|\D\))", body) is not None
        and is_said(body, language)
        and said.issuperset(asked)
    )


def is_said(sentence: str, language: str) -> bool:
    """Return whether a text is prose in a language, and not a signature line, figures or code."""
    if _MARKUP.search(sentence):
        return False
    words = re.findall(r"[^\W\d_]{2,}", sentence)
    listed = dictionary(language)
    known = sum(word.casefold() in listed for word in words)
    return (
        len(words) >= 4
        and not any(lacks_ligature(word, listed) for word in words)
        and sum(map(len, words)) >= len(sentence) / 2
        and known >= _LEAST_KNOWN * len(words)
    )


def lacks_ligature(word: str, listed: Set[str]) -> bool:
    """Return whether a word, such as "rst" or "dierent", lost letters that fonts draw as one."""
    is_odd = word.islower() and (word not in listed or word in ("nd", "le"))  # "find", "file"
    lost, at = ("fi", "fl", "ff", "ffi"), range(len(word))
    return is_odd and any(f"{word[:n]}{part}{word[n:]}" in listed for n in at for part in lost)


def plain(text: str) -> str:
    """Return a sentence on one line, without Markdown and without brackets that define a term."""
    return " ".join(_ASIDE.sub("", _MARKS.sub("", without_links(text))).split())
