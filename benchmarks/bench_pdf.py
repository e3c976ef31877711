"""Measure the reading of PDFs beside pdfminer's and markitdown's: text, headings, tables, speed.

`python -m benchmarks.bench_pdf` reads the made set; `--scans` also reads scans of a part, slowly.
`--pages N` writes a report of N pages, and prints the speed and memory of reading it. It prints
the speed of eight shorter reports in one process and in two.
"""

import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pypdfium2

from benchmarks.processes import kibibytes
from benchmarks.shared import heading, options, row
from rag_pipeline.config import DocumentsSource
from rag_pipeline.errors import DocumentError
from rag_pipeline.indexing.loads import load_all
from rag_pipeline.loading import parser_process
from rag_pipeline.loading.pdf.parse import read_pdf
from rag_pipeline.loading.quality import TextQuality
from rag_pipeline.loading.sources import scan
from rag_pipeline_tests.testing.pdf_measures import measure
from rag_pipeline_tests.testing.pdf_scans import scanned
from rag_pipeline_tests.testing.pdf_set import MadePdf, makers, report

Reader = Callable[[bytes], tuple[str, bytes | None]]


def _ours(raw: bytes) -> tuple[str, bytes | None]:
    read = read_pdf("a.pdf", raw)
    return read.text, read.page_map


def _pdfminer(raw: bytes) -> tuple[str, None]:
    from pdfminer.high_level import extract_text

    return extract_text(io.BytesIO(raw)), None


def _markitdown(raw: bytes) -> tuple[str, None]:
    from markitdown import StreamInfo
    from markitdown.converters import PdfConverter

    return PdfConverter().convert(io.BytesIO(raw), StreamInfo(extension=".pdf")).markdown, None


READERS: dict[str, Reader] = {
    "rag_pipeline": _ours, "pdfminer.six": _pdfminer, "markitdown": _markitdown,
}  # fmt: skip


def compare(made: list[MadePdf]) -> None:
    """Print the means of each reader over the set."""
    pages = sum(len(pypdfium2.PdfDocument(one.raw)) for one in made)
    print(f"{len(made)} PDFs of {pages} pages")
    fields = ("characters", "headings", "cells", "furniture", "pages")
    heading("", *fields, "pages/s")
    for name, reader in READERS.items():
        started = time.process_time()
        texts = [reader(one.raw) for one in made]
        seconds = time.process_time() - started
        found = [measure(one, *text) for one, text in zip(made, texts, strict=True)]
        means = (_mean(getattr(one, field) for one in found) for field in fields)
        row(name, *means, f"{pages / seconds:.1f}")


def _mean(values: Iterator[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.4f}" if known else "-"


def read_scans() -> None:
    """Print how well scans of some of the set are read."""
    made = dict(makers())
    for name, turn, angle in (
        ("clauses-0", 0, 0.7), ("report-0", 0, -0.5), ("paper-0", 0, 0.5), ("lines-1", 90, 0.0),
        ("notes-0", 180, 0.3),
    ):  # fmt: skip
        one = made[name]()
        started = time.process_time()
        read = read_pdf(name, scanned(one.raw, turn, angle))
        seconds = time.process_time() - started
        one.texts = [(page, text) for page, text in one.texts if page == 1]
        quality = TextQuality.from_json(str(read.metadata["text_quality"]))
        print(f"{name} turned {turn} askew {angle}: characters "
              f"{measure(one, read.text).characters:.4f}, confidence {quality.confidence:.3f}, "
              f"{seconds:.1f} s of one core")  # fmt: skip


def read_long(pages: int) -> None:
    """Print speed and memory of one long document in the parser's process."""
    raw = report("long", 1, pages).raw
    settings = DocumentsSource(path="documents", parse_seconds=3600)
    parsed = parser_process.parse_apart("long.pdf", raw, ".pdf", settings)
    (child,) = parser_process._parsers().idle
    ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    peak = kibibytes(child.pid, "VmHWM") / 1024
    print(f"{pages} pages ({len(raw):,} bytes): {pages / seconds:.1f} pages a second and core, "
          f"{len(parsed.text):,} characters, peak of {peak:.0f} MiB")  # fmt: skip


def read_several(pages: int, documents: int = 8) -> None:
    """Print the speed of reading documents with `pages` pages in one process and in two."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(documents):
            made = report("long", number, pages // documents)
            Path(folder, f"{number}.pdf").write_bytes(made.raw)
        settings = DocumentsSource(path=folder)
        for processes in (1, 2):
            sources = scan(settings, Path(folder))
            started = time.perf_counter()
            texts = [loaded for _, loaded in load_all(sources, processes)]
            seconds = time.perf_counter() - started
            assert not any(isinstance(text, DocumentError) for text in texts)
            print(f"{pages} pages in {documents} documents, {processes} processes: "
                  f"{pages / seconds:.1f} pages a second by the clock")  # fmt: skip


def main() -> None:
    asked = options(__doc__, scans=False, pages=0)
    if asked.pages:
        read_long(asked.pages)
        read_several(asked.pages)
        return
    compare([make() for _, make in makers()])
    if asked.scans:
        read_scans()


if __name__ == "__main__":
    main()
