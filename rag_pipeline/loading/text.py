"""Decode text, guess its encoding, and find titles, headings and front matter in it."""

import codecs
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

import yaml

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.languages import any_language_of

_BOMS = (
    # UTF-32 first: its little-endian mark starts with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = {
    b"%PDF-": "a PDF; name it .pdf",
    b"PK\x03\x04": "a zip archive",
    b"\xd0\xcf\x11\xe0": "a legacy Office file; save it as .docx, .xlsx or .pptx",
    b"{\\rtf": "an RTF document; name it .rtf",
    b"\x89PNG": "a PNG image; name it .png",
    b"\xff\xd8\xff": "a JPEG image; name it .jpg",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"\x1f\x8b": "a gzip archive",
}
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.{0,65536}?)^---[ \t]*\r?$", re.S | re.M)
_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"[ ]{0,3}(```|~~~)")
_LINK = re.compile(
    r"!?\[([^\[\]\n]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s+\"[^\"\n]*+\")?\)"
)
_LANGUAGES_OF = {
    "cp1252": "",
    "cp1250": "pl cs sk hu hr sl ro bs sq",
    "cp1251": "ru uk bg sr mk be",
    "cp1253": "el",
    "cp1254": "tr az",
    "cp1255": "he",
    "cp1256": "ar fa ur",
    "cp874": "th",
    "cp932": "ja",
    "euc_jp": "ja",
    "gb18030": "zh",
    "big5": "zh",
    "cp949": "ko",
    "koi8_r": "ru uk bg",
    "cp866": "ru uk bg be",
}
"""The languages (ISO 639-1) of encodings, the most common encoding first. "" means all others.

Rare encodings are omitted, because each candidate makes wrong guesses for short texts likelier.
"""
_ENCODINGS = list(_LANGUAGES_OF)
_SPECIAL = frozenset(" ".join(_LANGUAGES_OF.values()).split())
_READ = 2_000
_TITLE_WITHIN = 300
"""Number of first characters that a title may follow, if another heading precedes it."""
_H1 = re.compile(r"<h1\b[^>]*>(.{1,200}?)</h1>", re.I | re.S)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_TAG = re.compile(r"<[^>]*>")
_LONGEST_TITLE = 120
_CJK = re.compile("[\u2e80-\u2fdf\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


def is_cjk(char: str) -> bool:
    """Return whether a character is Chinese, Japanese or full-width, and needs no blanks."""
    return bool(_CJK.match(char))


def byte_order_encoding(raw: bytes) -> str | None:
    """Return `utf-16` or `utf-32` if the bytes begin with its byte order mark, or else None."""
    return next((encoding for mark, encoding in _BOMS if raw.startswith(mark)), None)


def decode(document_id: str, raw: bytes, suffix: str) -> tuple[str, str]:
    """Return the text of a file, and its encoding if it was guessed, or else "".

    UTF-8, UTF-16 and UTF-32 need no guess. Raise DocumentError if the file is binary, or with the
    offset of a byte that can't be decoded.
    """
    for signature, name in _SIGNATURES.items():
        if raw.startswith(signature):
            raise DocumentError(document_id, f"unsupported type {suffix or '(no suffix)'}: {name}")
    encoding = byte_order_encoding(raw)
    if encoding is None and b"\x00" in raw and not (encoding := _utf_16_of_latin(raw)):
        kind = f"binary (NUL byte at offset {raw.index(0)})"
        raise DocumentError(document_id, f"unsupported type {suffix or '(no suffix)'}: {kind}")
    if encoding is not None:
        return decode_as(document_id, raw, encoding), ""
    guessed = guessed_encoding(raw)
    return decode_as(document_id, raw, guessed or "utf-8"), guessed


def guessed_encoding(raw: bytes) -> str:
    """Return the likely encoding of a text, or "" for (damaged) UTF-8 or if no encoding fits.

    Damaged UTF-8 has at most as many invalid bytes as valid non-ASCII characters, or only its last
    character is cut off.
    """
    from charset_normalizer import from_bytes

    try:
        raw.decode()
    except UnicodeDecodeError as error:
        valid = raw.decode(errors="ignore")
        n_wrong = len(raw) - len(valid.encode())
        is_cut = error.reason == "unexpected end of data"
        if is_cut or n_wrong <= sum(char > "\x7f" for char in valid):
            return ""
    else:
        return ""
    found = [
        (not _suits(encoding, text), match.chaos, -match.coherence, _ENCODINGS.index(encoding))
        for match in from_bytes(raw, cp_isolation=_ENCODINGS)
        for text in [str(match)[:_READ]]
        for encoding in match.could_be_from_charset
    ]
    return _ENCODINGS[min(found)[-1]] if found else ""


def _suits(encoding: str, text: str) -> bool:
    """Return whether an encoding is usual for the language of the text that it decodes."""
    language = any_language_of(text)
    own = _LANGUAGES_OF[encoding].split()
    return language in own if own else language not in _SPECIAL


def _utf_16_of_latin(raw: bytes) -> str | None:
    """Return the UTF-16 encoding of Latin text without a byte order mark, or None otherwise."""
    # In such text, over a quarter of the bytes are 0, all at even offsets or all at odd offsets.
    even, odd = raw[::2].count(0), raw[1::2].count(0)
    if len(raw) % 2 or even + odd <= len(raw) / 4 or (even and odd):
        return None
    encoding = "utf-16-be" if even else "utf-16-le"
    return None if _CONTROLS.search(raw.decode(encoding, "replace")) else encoding


def decode_as(document_id: str, raw: bytes, encoding: str) -> str:
    """Decode bytes, or raise DocumentError with the offset of the first wrong byte."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        reason = f"not {encoding.upper()} text: {byte}; save it as UTF-8"
        raise DocumentError(document_id, reason) from None
    except UnicodeError:
        raise DocumentError(document_id, f"not {encoding.upper()} text") from None


def require_text(document_id: str, text: str) -> str:
    """Return the text, or raise DocumentError if it is blank or can't be stored as UTF-8."""
    if not text.strip("\ufeff\u200b").strip():
        raise DocumentError(document_id, "empty: it has no text")
    if wrong := _NOT_TEXT.search(text):
        kind = "NUL character" if wrong[0] == "\x00" else "lone surrogate"
        raise DocumentError(document_id, f"not valid text: {kind} at offset {wrong.start()}")
    return text


def storable(value: Any) -> MetadataValue:
    """Return a metadata value as a str, int, float or bool that JSON and UTF-8 can hold."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple, Mapping)):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return _NOT_TEXT.sub("\ufffd", str(value))


class _FrontMatterLoader(yaml.SafeLoader):
    """A loader that refuses merge keys (`<<`), which can multiply its content."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        pass  # so that the key stays, which no constructor knows


def front_matter(text: str) -> tuple[dict[str, MetadataValue], str]:
    """Return the fields of Markdown's YAML front matter, and the body.

    Lists become JSON text. Omit nested values. A block that is not a YAML mapping belongs to the
    body, because `---` is also a horizontal rule.
    """
    block = _FRONT_MATTER.match(text)
    if block is None:
        return {}, text
    try:
        values = yaml.load(block[1], _FrontMatterLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(values, dict):
        return {}, text
    # Omit nested values, because YAML aliases can make them grow without bound.
    fields = {
        str(storable(key)): storable(value)
        for key, value in values.items()
        if value is not None
        and not any(
            isinstance(one, (list, dict, set, tuple))
            for one in (value if isinstance(value, list) else [value])
        )
    }
    return fields, text[block.end() :]


def markdown_title(text: str) -> str:
    """Return the first heading of level 1, or else a first heading near the start, or else ""."""
    first = ""
    html = _H1.search(text[:_READ])
    for offset, level, heading in headings(text):
        if html and html.start() < offset:
            break
        # Further down, such as "# Notes" below an invoice, it is the heading of a part.
        if level == 1 and (not first or offset <= _TITLE_WITHIN):
            return heading
        first = first or (heading if offset <= _TITLE_WITHIN and level == 2 else "")
    title = one_line(_TAG.sub("", html[1])) if html and not first else ""
    return first or title


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the offset, level (1 to 6) and text of each Markdown heading outside fenced code."""
    fence = ""
    offset, following = 0, 0
    for whole in text.splitlines(keepends=True):
        offset, following = following, following + len(whole)
        line = whole.rstrip("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif fence == mark[1]:
                fence = ""
        elif not fence and (heading := _HEADING.match(line.lstrip("\ufeff"))):
            title = one_line(without_links(heading[2]))
            if title:
                yield offset, len(heading[1]), title


@lru_cache(maxsize=64)
def heading_paths(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the offset and path of each Markdown heading: its outer headings, and then itself."""
    # Cached, because most searches find the same documents.
    path: list[tuple[int, str]] = []
    found = []
    for offset, level, title in headings(text):
        path = [*(step for step in path if step[0] < level), (level, title)]
        found.append((offset, tuple(title for _, title in path)))
    return tuple(found)


def headings_above(text: str, place: int) -> tuple[str, ...]:
    """Return the path of the last Markdown heading before the offset `place`, or ()."""
    paths = heading_paths(text)
    n = bisect_left(paths, place, key=itemgetter(0))
    return paths[n - 1][1] if n else ()


def without_links(text: str) -> str:
    """Replace Markdown links by their text, and remove links without words, such as `[¶](#a)`."""
    return _LINK.sub(lambda link: link[1] if any(map(str.isalnum, link[1])) else "", text)


def first_line_title(text: str) -> str:
    """Return the first non-blank line if it is short and has a letter, or else ""."""
    line = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    title = one_line(line).lstrip("#").lstrip()
    if line.lstrip().startswith(("<", "![", "[!")):  # a logo or badges
        title = one_line(_TAG.sub("", without_links(_IMAGE.sub("", line))))
    usable = 0 < len(title) <= _LONGEST_TITLE and any(c.isalpha() for c in title)
    return title if usable else ""


def clean(text: str) -> str:
    """Remove control characters, and merge consecutive blank lines."""
    text = re.sub(r"\r\n?|\x0c", "\n", text)
    text = _NOT_TEXT.sub("\ufffd", _CONTROLS.sub("", text))
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


def one_line(text: str) -> str:
    """Return the text on one line. Characters that UTF-8 can't store become U+FFFD."""
    return " ".join(_NOT_TEXT.sub("\ufffd", text.strip("\ufeff")).split())
