"""Convert HTML and Office files to Markdown in linear time, even if elements nest deeply."""

import io
import re
from collections import Counter
from functools import cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.text import byte_order_encoding, clean, decode_as, guessed_encoding
from rag_pipeline.loading.unseen import StyleSheet, drop_unseen_elements

_MAX_DEPTH = 100
_LOST_DEPTH = 2_000
"""Depth of nesting above which a file is refused, because lxml loses text at 2,048."""
_NO_TEXT = frozenset({"script", "style", "template", "rt", "rp"})
_SURROUNDINGS = "nav, footer, aside, [role=navigation], [role=contentinfo], [role=complementary]"
_DOCX_STYLES = "p[style-name='Title'] => h1:fresh"


def read_html(document_id: str, raw: bytes, of_page: bool = False) -> tuple[str, str, Counter[str]]:
    """Return the Markdown, the title, and the number of unseen characters by reason.

    If `of_page` is True, omit menus, footers and side columns. HTML with more than 100 levels of
    elements becomes plain text, and nothing is omitted. Raise DocumentError if the bytes can't be
    decoded, or if elements have 2,000 levels.
    """
    from bs4 import BeautifulSoup

    html = _decode(document_id, raw)
    nested = _read_nested(document_id, html)
    if nested is not None:
        return nested
    # lxml closes open <p> and <li> elements. The converter's parser would nest them.
    soup = BeautifulSoup(html, "lxml")
    title = soup.title.get_text() if soup.title else ""
    unseen = drop_unseen_elements(soup)
    for element in soup(["script", "style"]):
        element.extract()
    if of_page:
        _drop_surroundings(soup)
    return to_markdown(str(soup).encode(), ".html"), title, unseen


def _drop_surroundings(soup: Any) -> None:
    """Drop menus, footers and side columns, unless no other text would remain."""
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
    """Return the Markdown of HTML inside a document, and add its unseen characters to `unseen`."""
    text, _, found = read_html(document_id, raw)
    unseen.update(found)
    return clean(text)


def to_markdown(raw: bytes, suffix: str) -> str:
    """Convert the content of an `.html`, `.docx` or `.pptx` file to Markdown."""
    from markitdown import StreamInfo

    info = StreamInfo(extension=suffix, charset="utf-8" if suffix == ".html" else None)
    # Without `strict`, a fallback to plain text would depend on the depth of the call stack.
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
        return "utf-8"  # the declaration itself is ASCII
    try:
        b" ".decode(name)  # decoding zero bytes would accept any name
    except (LookupError, UnicodeError):
        return "utf-8"
    return name


def _read_nested(document_id: str, html: str) -> tuple[str, str, Counter[str]] | None:
    """Return the result of `read_html` for HTML with more than 100 levels, or None for other HTML.

    Beautiful Soup takes quadratic time in the depth, and converters recurse at each level.
    """
    from lxml import etree  # type: ignore[import-untyped]

    parser = etree.HTMLParser(remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        parser.feed(html)
        root = parser.close()
    except etree.ParserError:  # empty
        return None
    walk = () if root is None else etree.iterwalk(root, ("start", "end"))
    depth = max(accumulate(1 if event == "start" else -1 for event, _ in walk), default=0)
    if depth <= _MAX_DEPTH:
        return None
    if depth >= _LOST_DEPTH:
        raise DocumentError(document_id, "corrupt HTML: nested too deeply")
    sheet = StyleSheet("\n".join(root.itertext("style")))
    unseen: Counter[str] = Counter()
    texts: list[str | None] = []
    body = root.find("body")
    walk = etree.iterwalk(root if body is None else body, ("start", "end"))
    for event, element in walk:
        if event == "end":
            texts.append(element.tail)
        elif element.tag in _NO_TEXT:
            walk.skip_subtree()
        elif reason := sheet.hides(element.tag, element.attrib):
            unseen[reason] += len("".join("".join(element.itertext()).split()))
            walk.skip_subtree()
        else:
            texts.append(element.text)
    text = "\n".join(filter(None, ((text or "").strip() for text in texts)))
    return text, root.findtext(".//title") or "", unseen


@cache
def _converters() -> dict[str, Any]:
    """Return markitdown's converters by suffix, patched for linear time on blanks and lists."""
    import markdownify
    from markitdown.converters import DocxConverter, HtmlConverter, PptxConverter
    from markitdown.converters import _html_converter as converters

    # These patterns match the same text as markdownify's patterns, but in linear time.
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
