"""Broken and hostile PDFs: mutations of good ones, and files that are made to do harm."""

import random
import re
import zlib
from collections.abc import Callable, Iterator

from rag_pipeline_tests.testing.formats import pdf_bytes
from rag_pipeline_tests.testing.pdf_set import makers

_BASES = (
    "paper-3", "report-0", "invoice-grid-0", "slides-0", "fpdf-0", "notes-0", "turned-90",
    "cjk-STSong-Light", "clauses-0", "newsletter-0", "lines-0",
)  # fmt: skip
Mutation = Callable[[bytes, random.Random], bytes]


def hostile_pdfs(bases: int = len(_BASES)) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes, the same ones each time; mutate so many files in each way."""
    made = dict(makers())
    raws = {base: made[base]().raw for base in _BASES}
    for number, (name, mutation) in enumerate(_MUTATIONS.items()):
        for place in range(bases):
            base = _BASES[(number + place) % len(_BASES)]
            yield f"{base}-{name}", mutation(raws[base], random.Random(f"{base} {number}"))
    yield from _bombs()
    yield "locked", pdf_bytes("x", password="secret")
    yield "open to all", pdf_bytes("Open", owner="secret")


def _flipped(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(40):
        changed[chance.randrange(9, len(changed))] = chance.randrange(256)
    return bytes(changed)


def _few_flipped(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(3):
        changed[chance.randrange(9, len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _zeroed(raw: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(9, len(raw) // 2)
    return raw[:start] + bytes(500) + raw[start + 500 :]


def _replaced(pattern: bytes, by: bytes | Callable[[random.Random, int, bytes], bytes]) -> Mutation:
    """Replace a pattern by bytes, or by a function of chance, file length and match."""

    def mutation(raw: bytes, chance: random.Random) -> bytes:
        return re.sub(
            pattern, lambda m: by if isinstance(by, bytes) else by(chance, len(raw), m[0]), raw
        )

    return mutation


_BOX, _COUNT = rb"/MediaBox\s*\[[^]]*\]", rb"/Count \d+"
_MUTATIONS: dict[str, Mutation] = {
    "cut": lambda raw, chance: raw[: chance.randrange(100, len(raw))] + b"\n%%EOF",
    "cut_without_end": lambda raw, chance: raw[: chance.randrange(20, len(raw) - 10)],
    "without_start": lambda raw, chance: b"%PDF-1.4\n" + raw[chance.randrange(20, len(raw)) :],
    "flipped": _flipped,
    "few_flipped": _few_flipped,
    "zeroed": _zeroed,
    "wrong_start_of_table": _replaced(
        rb"startxref\s+\d+", lambda chance, size, _: b"startxref\n%d" % chance.randrange(size * 2)
    ),
    "wrong_offsets": _replaced(
        rb"\d{10} 00000 n", lambda chance, size, _: b"%010d 00000 n" % chance.randrange(size)
    ),
    "other_references": _replaced(
        rb"\b\d+ 0 R",
        lambda chance, _, old: b"%d 0 R" % chance.randrange(1, 9) if chance.random() < 0.2 else old,
    ),
    "pages_in_a_circle": _replaced(
        rb"/Kids\s*\[\s*\d+ 0 R", lambda *given: given[-1] + b" 1 0 R 2 0 R 3 0 R 4 0 R"
    ),
    "endless_page_count": _replaced(_COUNT, b"/Count 2147483647"),
    "negative_page_count": _replaced(_COUNT, b"/Count -5"),
    "huge_page": _replaced(_BOX, b"/MediaBox [0 0 99999999 99999999]"),
    "turned_inside_out": _replaced(_BOX, b"/MediaBox [600 800 -600 -800]"),
    "no_page_size": _replaced(_BOX, b"/MediaBox [0 0 0 0]"),
    "odd_rotation": lambda raw, _: raw.replace(b"/Rotate 0", b"/Rotate 37").replace(
        b"/Rotate 90", b"/Rotate -7777"
    ),
    "fonts_without_maps": _replaced(rb"/(ToUnicode|Encoding)\b", b"/Nothing__"),
    "no_fonts": lambda raw, _: raw.replace(b"/Type /Font", b"/Type /Fond").replace(
        b"/BaseFont", b"/BaseFond"
    ),
    "wrong_lengths": _replaced(
        rb"/Length \d+", lambda chance, *_: b"/Length %d" % chance.randrange(1 << 31)
    ),
    "wrong_filters": lambda raw, chance: raw.replace(
        b"/FlateDecode", chance.choice((b"/LZWDecode", b"/DCTDecode", b"/Crypt"))
    ),
    "no_root": _replaced(rb"/Root", b"/Rood"),
    "twice": lambda raw, _: raw + raw,
}


def assembled(*objects: bytes) -> bytes:
    """Return a PDF without a table of objects; readers rebuild it."""
    body = b"".join(b"%d 0 obj %s endobj\n" % entry for entry in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer<</Root 1 0 R/Size 99>>\n%%EOF"


def page_of(contents: bytes, resources: bytes = b"", box: bytes = b"0 0 600 800") -> bytes:
    return assembled(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents 4 0 R/Resources<<%s/Font<</F 5 0 R>>>>>>"
        % (box, resources),
        contents,
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>/Length 5>>"
        b"stream\n/X Do\nendstream",
        stream(bytes(1 << 20), b"/Type/XObject/Subtype/Image/Width 60000/Height 60000"
                b"/BitsPerComponent 8/ColorSpace/DeviceGray"),
    )  # fmt: skip


def stream(data: bytes, entries: bytes = b"", filters: int = 1) -> bytes:
    names = b"/FlateDecode " * filters
    for _ in range(filters):
        data = zlib.compress(data, 9)
    return b"<</Length %d/Filter[%s]%s>>stream\n%s\nendstream" % (len(data), names, entries, data)


def vast_image() -> bytes:
    """Return a page with an image of 60,000 by 60,000 pixels."""
    return page_of(stream(b"q 600 0 0 800 0 0 cm /I Do Q"), b"/XObject<</I 7 0 R>>")


def _bombs() -> Iterator[tuple[str, bytes]]:
    text = b"BT /F 12 Tf 72 700 Td (Fees are due in March.) Tj ET "
    yield "form in itself", page_of(stream(text + b"/X Do "), b"/XObject<</X 6 0 R>>")
    image = b"/XObject<</I 7 0 R>>"
    yield "image of 60,000 by 60,000", vast_image()
    yield "page of a mile", page_of(stream(b"q 1e7 0 0 1e7 0 0 cm /I Do Q"), image, b"0 0 1e7 1e7")
    yield "zip bomb", page_of(stream(bytes(300_000_000)))
    yield "zip bomb in zip bomb", page_of(stream(bytes(100_000_000), filters=3))
    yield "lines without end", page_of(stream(b"0 0 m 9 9 l S " * 400_000 + text))
    yield "braces without end", page_of(stream(b"[" * 2_000_000 + text))
    yield "states without end", page_of(stream(b"q " * 3_000_000 + text))
    nested = b"<</A " * 50_000 + b"1" + b">>" * 50_000
    yield "dictionaries without end", assembled(nested, nested)
    yield "only a head", b"%PDF-1.7\n%%EOF"
    yield "numbers without end", page_of(stream(b"9" * 5_000_000 + b" " + text))
    yield "letters of no size", page_of(stream(b"BT /F 0 Tf (a) Tj /F 1e9 Tf (b) Tj ET"))
    yield "letters far away", page_of(stream(b"BT /F 9 Tf 1e9 -1e9 Td (a) Tj ET " + text))
    everywhere = b"".join(
        b"BT /F 8 Tf 1 0 0 1 %d %d Tm (%d) Tj ET " % (n * 37 % 590, n * 61 % 790, n)
        for n in range(20_000)
    )
    yield "words everywhere", page_of(stream(everywhere))
