"""Find text that an HTML or Word file hides from people, and characters without a width."""

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SKIPPED = re.compile(
    r"/\*.*?(?:\*/|$)|@[^{};]*+(?:;|\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}?|$)", re.S
)
"""Matches a style sheet's comments, and its rules that begin with `@`."""
_SIMPLE = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)?", re.I)
_LENGTH = re.compile(r"(-?\d*\.?\d+)([a-z%]*)")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "em": 16.0, "rem": 16.0}
_UNKNOWN = "unknown"
"""Stands for a background colour that a linked style sheet or an attribute may set."""
_WHITE = frozenset({"#fff", "#ffffff", "white", "rgb(255,255,255)"})
_FAR = -400
"""Distance in pixels to the left or the top that moves text off the page."""
FORMULAS = "formulas without a stored value"
"""The reason for Excel cells with a formula that no program has computed."""
ATTACHMENTS = "attachments"
"""The reason for unread attachments of Outlook mails, and of mails inside archives or mails."""
_TOLD = {
    "hidden ": "read and marked",
    FORMULAS: "read as empty",
    ATTACHMENTS: "not read",
    "": "characters that nobody sees were left out",
}
"""The words of a warning, by the start of its reason."""
WITHOUT_WIDTH = "without a width"
"""The reason for characters that match `NO_WIDTH`."""
NO_WIDTH = re.compile(
    # Not matched: joiners between Indic letters, Arabic letters or emoji, and tags of flag emoji.
    "[\u200b\u2060-\u2064\u180e\ufeff]|(?<=[\x00-\u024f])[\u200c\u200d](?=[\x00-\u024f])"
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+"
)


def without_zero_width(text: str) -> tuple[str, int]:
    """Return the text without its zero-width characters, and the number of these characters."""
    if text.isascii():
        return text, 0
    kept = NO_WIDTH.sub("", text)
    return kept, len(text) - len(kept)


def unseen_metadata(counts: Mapping[str, int]) -> dict[str, str]:
    """Return the metadata field `unseen` with the counts above 0 as JSON, or {} without any."""
    found = {reason: count for reason, count in sorted(counts.items()) if count}
    return {"unseen": json.dumps(found)} if found else {}


def unseen_warning(stored: object) -> str:
    """Return a warning for a value that `unseen_metadata` stored, or "" for any other value."""
    try:
        counts = {str(reason): int(count) for reason, count in json.loads(str(stored)).items()}
    except (ValueError, TypeError, AttributeError):
        return ""  # absent, or the file or a sidecar has a field of this name
    told: dict[str, list[str]] = {words: [] for words in _TOLD.values()}
    for reason, count in counts.items():
        start = next(start for start in _TOLD if reason.startswith(start))
        said = re.sub(r"s\b", "", reason, count=1) if start and count == 1 else reason
        told[_TOLD[start]].append(f"{count:,} {said}")
    return "; ".join(f"{words}: {', '.join(own)}" for words, own in told.items() if own)


class StyleSheet:
    """The styles that an HTML page declares, from which hidden elements are found.

    Inline styles count, as do rules of `<style>` elements with a simple selector, such as `p.note`.
    Rules for a medium, such as print, and linked style sheets do not count.
    """

    def __init__(self, css: str) -> None:
        """Read the rules of the page's `<style>` elements."""
        self._rules: dict[tuple[str, str], dict[str, str]] = {}
        for block in _SKIPPED.sub("", css).split("}"):
            selectors, _, body = block.partition("{")
            for selector in selectors.split(","):
                simple = _SIMPLE.fullmatch(selector.strip())
                if simple and simple[0]:
                    key = (simple[1] or "").lower(), simple[2] or ""
                    self._rules.setdefault(key, {}).update(_declarations(body))

    def style(self, tag: str, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Return the CSS properties that the page declares for an element, by name."""
        given = attributes.get("class") or ()
        classes = given.split() if isinstance(given, str) else given
        names = ["", *(f".{name}" for name in classes), f"#{attributes.get('id')}"]
        found: dict[str, str] = {}
        for name in names:
            for key in {("", name), (tag, name)} - {("", "")}:
                found.update(self._rules.get(key, {}))
        return found | _declarations(str(attributes.get("style") or ""))

    def hides(self, tag: str, attributes: Mapping[str, Any]) -> str:
        """Return the reason if an element is hidden, or else ""."""
        return _hides(attributes, self.style(tag, attributes))


def _hides(attributes: Mapping[str, Any], style: Mapping[str, str]) -> str:
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return "in hidden elements"
    if style.get("display") == "none":
        return "in hidden elements"
    if style.get("visibility") in ("hidden", "collapse") or _pixels(style, "opacity") == 0:
        return "in invisible elements"
    clipped = style.get("overflow") in ("hidden", "clip")
    sizes = [_pixels(style, side) for side in ("width", "height", "max-height")]
    small = any(size is not None and size <= 1 for size in sizes)
    letters = _pixels(style, "font-size")
    if (letters is not None and letters <= 1) or (clipped and small):
        return "of no size"
    moved = style.get("position") in ("absolute", "fixed")
    sides = ("left", "right", "top", "bottom") if moved else ()
    far = (_pixels(style, side) for side in (*sides, "text-indent", "margin-left"))
    return "off the page" if any(n is not None and n <= _FAR for n in far) else ""


def drop_unseen_elements(soup: Any) -> Counter[str]:
    """Remove a parsed page's hidden elements. Return the number of their characters by reason."""
    sheet = StyleSheet("\n".join(element.get_text() for element in soup("style")))
    linked = soup.find("link", rel="stylesheet") is not None
    behind: dict[int, str] = {}
    hidden: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for element in soup.find_all(True):
        parent = id(element.parent)
        if parent in hidden:
            hidden[id(element)] = ""
            continue
        style = sheet.style(element.name, element.attrs)
        reason = _hides(element.attrs, style)
        back = style.get("background-color") or style.get("background")
        if "bgcolor" in element.attrs or (linked and {"class", "id"} & set(element.attrs)):
            back = back or _UNKNOWN
        behind[id(element)] = back or behind.get(parent, _UNKNOWN if linked else "white")
        colour = style.get("color") or (element.name == "font" and element.get("color")) or ""
        if not reason and _same(str(colour).lower(), behind[id(element)]):
            reason = "in the colour behind it"
        if reason:
            hidden[id(element)] = reason
            counts[reason] += len("".join(element.get_text().split()))
    for element in soup.find_all(lambda one: bool(hidden.get(id(one)))):
        element.extract()
    return counts


def docx_without_unseen(raw: bytes) -> tuple[bytes, Counter[str]]:
    """Return a Word file without hidden text, and the number of removed characters by reason."""
    from lxml import etree  # type: ignore[import-untyped]

    counts: Counter[str] = Counter()
    changed: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = [n for n in archive.namelist() if re.fullmatch(r"word/(\w*notes|document)\.xml", n)]
        styles = archive.read("word/styles.xml") if "word/styles.xml" in archive.namelist() else b""
        parser = etree.XMLParser(resolve_entities=False, huge_tree=True)
        hiding = _hiding_styles(etree.fromstring(styles, parser)) if styles else frozenset()
        for name in names:
            root = etree.fromstring(archive.read(name), parser)
            runs = [
                (run, why) for run in root.iter(f"{_WORD}r") if (why := _hidden_run(run, hiding))
            ]
            for run, why in runs:
                texts = "".join(text.text or "" for text in run.iter(f"{_WORD}t"))
                counts[why] += len("".join(texts.split()))
                run.getparent().remove(run)
            if runs:
                changed[name] = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
        if not changed:
            return raw, counts
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as copy:
            for entry in archive.infolist():
                copy.writestr(entry, changed.get(entry.filename) or archive.read(entry))
    return packed.getvalue(), counts


def _hidden_run(run: Any, hiding: frozenset[str]) -> str:
    own = run.find(f"{_WORD}rPr")
    paragraph = next(run.iterancestors(f"{_WORD}p"), None)
    style = None if own is None else own.find(f"{_WORD}rStyle")
    of_paragraph = None if paragraph is None else paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    vanish = None if own is None else own.find(f"{_WORD}vanish")
    if vanish is not None:
        return "marked as hidden" if _is_on(vanish) else ""
    if any(one is not None and one.get(f"{_WORD}val") in hiding for one in (style, of_paragraph)):
        return "marked as hidden"
    if own is None:
        return ""
    size = own.find(f"{_WORD}sz")
    if size is not None and size.get(f"{_WORD}val") in ("0", "1", "2"):
        return "of no size"
    colour = own.find(f"{_WORD}color")
    white = colour is not None and str(colour.get(f"{_WORD}val")).lower() == "ffffff"
    return "in the colour behind it" if white and not _has_fill(run, own, paragraph) else ""


def _has_fill(run: Any, own: Any, paragraph: Any) -> bool:
    """Return whether a run's background may be coloured, which makes white text visible."""
    if own.find(f"{_WORD}shd") is not None or own.find(f"{_WORD}highlight") is not None:
        return True
    properties = None if paragraph is None else paragraph.find(f"{_WORD}pPr")
    tags = {child.tag for child in properties} if properties is not None else set()
    if tags & {f"{_WORD}shd", f"{_WORD}pStyle"}:
        return True
    inside = {above.tag for above in run.iterancestors()}
    background = run.getroottree().getroot().find(f"{_WORD}background")
    return bool(inside & {f"{_WORD}tbl", f"{_WORD}txbxContent"}) or background is not None


def _hiding_styles(styles: Any) -> frozenset[str]:
    """Return the ids of the styles that hide text, by themselves or by inheritance."""
    hides: dict[str, bool | None] = {}
    based: dict[str, str] = {}
    for style in styles.iter(f"{_WORD}style"):
        name = str(style.get(f"{_WORD}styleId"))
        vanish, base = style.find(f"{_WORD}rPr/{_WORD}vanish"), style.find(f"{_WORD}basedOn")
        hides[name] = None if vanish is None else _is_on(vanish)
        if base is not None:
            based[name] = str(base.get(f"{_WORD}val"))

    def chain(name: str) -> Iterator[str]:
        for _ in range(len(hides)):
            yield name
            if name not in based:
                return
            name = based[name]

    decided = {
        n: next((h for s in chain(n) if (h := hides.get(s)) is not None), False) for n in hides
    }
    return frozenset(name for name, hidden in decided.items() if hidden)


def _is_on(toggle: Any) -> bool:
    return toggle.get(f"{_WORD}val", "true").lower() not in ("0", "false", "off")


def _declarations(body: str) -> dict[str, str]:
    found = {}
    for part in body.split(";"):
        name, _, value = part.partition(":")
        value = value.lower().replace("!important", "")
        found[name.strip().lower()] = "".join(value.split())
    return found


def _pixels(style: Mapping[str, str], name: str) -> float | None:
    """Return a length in pixels, or None if it is missing or relative to an unknown length."""
    length = _LENGTH.fullmatch(style.get(name, ""))
    if length is None:
        return None
    number = float(length[1])
    return number * _PIXELS[length[2]] if length[2] in _PIXELS else (None if number else 0.0)


def _same(colour: str, back: str) -> bool:
    """Return whether text of a colour is invisible on its background, or False for ""."""
    colour, back = "".join(colour.split()), "".join(back.split())
    same = colour == back or (colour in _WHITE and back in _WHITE)
    return bool(colour) and (same or colour == "transparent")
