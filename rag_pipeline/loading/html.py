"""Convert HTML and Office files to Markdown in linear time, even if elements are nested deeply."""

import io
import re
from collections import Counter
from functools import cache
from types import SimpleNamespace
from typing import Any

from rag_pipeline.loading.encodings import guessed_encoding
from rag_pipeline.loading.text import byte_order_encoding, clean, decode_as
from rag_pipeline.loading.unseen import StyleSheet, drop_unseen_elements

_MAX_DEPTH = 100
_NO_TEXT = frozenset({"script", "style", "template", "rt", "rp"})
_SURROUNDINGS = "nav, footer, aside, [role=navigation], [role=contentinfo], [role=complementary]"
_DOCX_STYLES = "p[style-name='Title'] => h1:fresh"


def read_html(document_id: str, raw: bytes, of_page: bool = False) -> tuple[str, str, Counter[str]]:
    """Return the Markdown, the title, and the number of unseen characters by reason.

    If `of_page` is True, leave out menus, footers and side columns. HTML nested deeper than 100
    levels becomes plain text, and nothing is left out. Raise DocumentError if the bytes can't be
    decoded.
    """
    from bs4 import BeautifulSoup

    html = _decode(document_id, raw)
    nested = _read_nested(html)
    if nested is not None:
        return nested
    # lxml closes open <p> and <li> elements; the converter's parser nests them thousands deep.
    soup = BeautifulSoup(html, "lxml")
    title = soup.title.get_text() if soup.title else ""
    unseen = drop_unseen_elements(soup)
    for element in soup(["script", "style"]):
        element.extract()
    if of_page:
        _drop_surroundings(soup)
    return to_markdown(str(soup).encode(), ".html"), title, unseen


def _drop_surroundings(soup: Any) -> None:
    """Drop menus, footers and side columns that are outside the main content.

    Drop nothing if no other text would remain.
    """
    found = [
        element
        for element in soup.select(_SURROUNDINGS)
        if element.find_parent(["main", "article"]) is None
        and element.find(["main", "article"]) is None
    ]
    total = len(soup.get_text(strip=True))
    outermost = [one for one in found if not any(above in found for above in one.parents)]
    if sum(len(one.get_text(strip=True)) for one in outermost) < total:
        for element in outermost:
            element.extract()


def html_text(document_id: str, raw: bytes, unseen: Counter[str]) -> str:
    """Return the Markdown of HTML inside a document. Count its unseen characters in `unseen`."""
    text, _, found = read_html(document_id, raw)
    unseen.update(found)
    return clean(text)


def to_markdown(raw: bytes, suffix: str) -> str:
    """Convert the content of an `.html`, `.docx` or `.pptx` file to Markdown."""
    from markitdown import StreamInfo

    info = StreamInfo(extension=suffix, charset="utf-8" if suffix == ".html" else None)
    # strict: a fallback to plain text would depend on the depth of the call stack.
    options = {"style_map": _DOCX_STYLES} if suffix == ".docx" else {}
    result = _converters()[suffix].convert(io.BytesIO(raw), info, strict=True, **options)
    return str(result.markdown)


def _decode(document_id: str, raw: bytes) -> str:
    from bs4.dammit import EncodingDetector

    declared = EncodingDetector.find_declared_encoding(raw, is_html=True)
    encoding = byte_order_encoding(raw) or (
        _text_encoding(declared) if declared else guessed_encoding(raw) or "utf-8"
    )
    return decode_as(document_id, raw, encoding).removeprefix("\ufeff")


def _text_encoding(declared: str) -> str:
    name = declared.lower()
    if name in ("iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii"):
        return "windows-1252"
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"  # the declaration itself was readable as ASCII
    try:
        b" ".decode(name)  # decoding no bytes would accept any name
    except (LookupError, UnicodeError):
        return "utf-8"
    return name


def _read_nested(html: str) -> tuple[str, str, Counter[str]] | None:
    """Return the result of `read_html` for HTML nested deeper than 100 levels, or None.

    Beautiful Soup takes quadratic time in the depth, and tree converters recurse at each level.
    """
    from lxml import etree  # type: ignore[import-untyped]

    outline = _Outline()
    parser = etree.HTMLParser(target=outline, recover=True, huge_tree=True)
    try:
        parser.feed(html)
        parser.close()
    except etree.ParserError:  # empty
        return None
    found = outline.text, outline.title, outline.unseen
    return found if outline.deepest > _MAX_DEPTH else None


class _Outline:
    """Collect the nesting depth of HTML and the texts between its tags from a parser's events."""

    def __init__(self) -> None:
        self.deepest = self._depth = 0
        self.title = ""
        self.unseen: Counter[str] = Counter()
        self._sheet = StyleSheet("")
        self._css = ""
        self._reasons: list[str | None] = []
        self._titles = self._bodies = 0
        self._in_title = self._ended = False
        self._pieces: list[str] = []
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    def start(self, tag: str, attributes: Any) -> None:
        self._end_text()
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        above = self._reasons[-1] if self._reasons else ""
        own = None if tag in _NO_TEXT else self._sheet.hides(tag, attributes)
        self._reasons.append(own if above == "" else above)
        self._titles += tag == "title"
        self._in_title = self._in_title or (tag == "title" and self._titles == 1)
        self._bodies += tag == "body"
        if tag == "body" and self._bodies == 1:
            self._texts.clear()

    def end(self, tag: str) -> None:
        self._end_text()
        self._depth -= 1
        self._reasons.pop()
        if tag == "style":
            self._sheet = StyleSheet(self._css)
        self._ended = self._ended or tag == "body"
        self._in_title = self._in_title and tag != "title"

    def data(self, data: str) -> None:
        reason = self._reasons[-1] if self._reasons else ""
        if reason is None:
            self._css += data
        elif reason:
            self.unseen[reason] += len("".join(data.split()))
        elif not self._ended:
            self._pieces.append(data)
            self.title += data if self._in_title else ""

    def _end_text(self, *_: str | None) -> None:
        if text := "".join(self._pieces).strip():
            self._texts.append(text)
        self._pieces.clear()

    comment = pi = doctype = close = _end_text


@cache
def _converters() -> dict[str, Any]:
    """Return markitdown's converters by suffix, patched to read blanks and lists in linear time."""
    import markdownify
    from markitdown.converters import DocxConverter, HtmlConverter, PptxConverter
    from markitdown.converters import _html_converter as converters

    # Equal matches, but the search does not start again at each character of a run.
    patterns: Any = markdownify
    patterns.re_newline_whitespace = re.compile(r"(?<![\t \r\n])[\t \r\n]*[\r\n][\t \r\n]*")
    patterns.re_pre_rstrip = re.compile(r"(?<![ \n])[ \n]*$")

    class Numbering(converters._CustomMarkdownify):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._before: dict[int, dict[int, int]] = {}

        def convert_li(self, item: Any, text: str, parent_tags: Any) -> Any:
            items = item.parent
            if items is None or items.name != "ol":
                return super().convert_li(item, text, parent_tags)
            if id(items) not in self._before:
                listed = items.find_all("li", recursive=False)
                self._before[id(items)] = {id(one): n for n, one in enumerate(listed)}
            before = range(self._before[id(items)][id(item)])
            counted = SimpleNamespace(parent=items, find_previous_siblings=lambda name: before)
            return super().convert_li(counted, text, parent_tags)

    converters._CustomMarkdownify = Numbering
    return {".html": HtmlConverter(), ".docx": DocxConverter(), ".pptx": PptxConverter()}
