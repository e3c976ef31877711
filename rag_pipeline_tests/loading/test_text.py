"""Plain text and Markdown -> exactly the decoded file, a title, front matter."""

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.datamodels import Document
from rag_pipeline_tests.testing.scanning import load, outcomes


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_any_text_round_trips(text: str) -> None:
    raw = f"x{text}".encode()
    with tempfile.TemporaryDirectory() as folder:
        document = load(Path(folder) / "a.txt", raw)
    assert document.text == f"x{text}"
    assert document.content_hash == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xef\xbb\xbfx", "\ufeffx"),
        ("é\r\n\r".encode("utf-16"), "é\r\n\r"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "é"),
        ("é".encode("utf-32"), "é"),
        (b"\x00\x00\xfe\xff" + "é".encode("utf-32-be"), "é"),
        (b"a\r\n\x0c\x1b b\t \n\n", "a\r\n\x0c\x1b b\t \n\n"),
        (b"y" * 3_000_000, "y" * 3_000_000),
    ],
)
def test_text_is_exactly_the_decoded_file(tmp_path: Path, raw: bytes, text: str) -> None:
    for name in ("a.txt", "a.md", "noext", "a.csv"):
        assert load(tmp_path / name, raw).text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Die Kündigungsfrist beträgt drei Monate – zahlbar sind 30 €.", "cp1252"),
        ("café au lait", "cp1252"),
        ("El señor Muñoz pagará la cuota según el artículo quinto.", "cp1252"),
        ("Müşteri hizmetleri hafta içi her gün açıktır; lütfen arayın.", "cp1254"),
        ("Smlouva může být vypovězena písemně.", "cp1250"),
        ("Umowa może zostać rozwiązana przez każdą ze stron z wypowiedzeniem.", "cp1250"),
        ("Договор может быть расторгнут каждой из сторон за три месяца.", "cp1251"),
        ("Договор может быть расторгнут каждой из сторон за три месяца.", "koi8_r"),
        ("Η σύμβαση μπορεί να καταγγελθεί από κάθε μέρος με προειδοποίηση.", "cp1253"),
        ("契約は三か月前の通知により解約できます。料金は毎月支払われます。", "cp932"),
        ("契約は三か月前の通知により解約できます。料金は毎月支払われます。", "euc_jp"),
        ("合同可由任何一方提前三个月通知终止。费用按月支付。", "gb18030"),
        ("계약은 3개월 전 통지로 해지할 수 있습니다. 요금은 매월 지불됩니다.", "cp949"),
    ],
)
def test_another_encoding_is_guessed_and_named(tmp_path: Path, text: str, encoding: str) -> None:
    raw = text.encode(encoding)
    for name in ("a.txt", "a.md", "a.csv", "a.py"):
        document = load(tmp_path / name, raw)
        assert document.text == text
        assert document.metadata["encoding"] == encoding
    assert load(tmp_path / "a.html", f"<p>{text}</p>".encode(encoding)).text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_needs_no_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    document = load(tmp_path / "a.txt", "Größe in Metern".encode(encoding))
    assert document.text == "Größe in Metern"
    assert "encoding" not in document.metadata


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.txt", "\n\n  Supply   Agreement \nbody", "Supply Agreement"),
        ("a.txt", "\ufeffTitle\n", "Title"),
        ("my_own-file.txt", "w" * 121 + "\nTitle", "my own file"),
        ("my_own-file.txt", "---\nx", "my own file"),
        ("a.md", "intro\n\n## Two\n# One #\n", "One"),
        ("a.md", "## Two\ntext", "Two"),
        ("a.md", "```sh\n# comment\n```\n# Real\n", "Real"),
        ("a.md", "~~~\n```\n# comment\n~~~\n# Real\n", "Real"),
        ("a.md", "#hashtag line\n", "hashtag line"),
        ("a.md", "---\ntitle: Front\n---\n# Head\n", "Front"),
        ("a.md", "## of the\n\n# Head\n", "Head"),
        ("a.md", '<h1 align="center">Oars <img src="x.png"></h1>\n\n## Installation\n', "Oars"),
        ("a.md", f"{'A boat of oak. ' * 20}\n\n## Installation\n", "a"),
        ("oars.md", f'<p><img src="x.png"></p>\n{"Of oak. " * 50}\n\n## Installation\n', "oars"),
        ("oars.md", f"[![Build](b.svg)](c)\n{'Of oak. ' * 50}\n\n## Installation\n", "oars"),
        ("a.md", f"## Invoice\n\n{'A boat of oak. ' * 20}\n\n# Notes\n", "Invoice"),
        ("a.md", f"{'A boat of oak. ' * 20}\n\n# Notes\n\n## Part\n", "Notes"),
        ("a.md", "---\nauthor: x\n---\n\nFirst line\n", "First line"),
        ("a.md", "---\n[broken\n---\n# Head\n", "Head"),
        ("a.md", "---\n# no mapping\n---\n", "no mapping"),
        ("a.md", "# \n", "a"),
    ],
)
def test_titles(tmp_path: Path, name: str, text: str, title: str) -> None:
    document = load(tmp_path / name, text)
    assert (document.title, document.text) == (title, text)


def test_front_matter_becomes_metadata(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    front = (
        "---\r\ntitle: T\r\nyear: 2024\r\nsigned: 2024-05-01\r\nratio: 0.5\r\ndraft: true\r\n"
        "tags: [a, é]\r\nnested: {a: 1}\r\nnone:\r\nsuffix: faked\r\nbig: .inf\r\n---\r\nBody"
    )
    (tmp_path / "in" / "a.md").write_bytes(front.encode())
    document = outcomes(tmp_path)["in/a.md"]
    assert isinstance(document, Document)
    assert document.text == front
    assert document.metadata == {
        "language": "en",
        "year": 2024,
        "signed": "2024-05-01",
        "ratio": 0.5,
        "draft": True,
        "tags": '["a", "é"]',
        "big": "inf",
        "folder": "in",
        "suffix": ".md",
        "bytes": len(front.encode()),
    }


def test_yaml_aliases_cannot_grow(tmp_path: Path) -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    document = load(tmp_path / "a.md", f"---\n{laughs}---\nBody")
    # All of its words have one letter: such a text is doubtful.
    kept = {"language", "a", "folder", "suffix", "bytes", "text_quality"}
    assert set(document.metadata) == kept


def test_yaml_merges_cannot_grow(tmp_path: Path) -> None:
    merges = "a: &a {k: v, l: v}\n" + "".join(
        f"{b}: &{b} {{<<: [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]}}\n"
        for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    document = load(tmp_path / "a.md", f"---\n{merges}---\nBody")
    assert {"a", "b"}.isdisjoint(document.metadata), "the block belongs to the body"
