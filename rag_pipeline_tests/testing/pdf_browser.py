"""PDFs that a browser prints: scripts that run from right to left, and columns of CSS."""

import subprocess
import tempfile
from pathlib import Path

from rag_pipeline_tests.testing.browser import CHROMIUM
from rag_pipeline_tests.testing.pdf_set import MadePdf

_HEBREW = (
    "שומר הלילה רשם את טמפרטורת המים לפני השפל. הוועדה השוותה שלושה פנקסים משנת 1987 (בפעם "
    "הראשונה). התחנה River Station נפתחה במאי. המגדלור נבדק פעמיים בכל חורף."
)
_ARABIC = (
    "سجل الحارس الليلي درجة حرارة الماء قبل الجزر. قارنت اللجنة ثلاثة سجلات من عام 1987 للمرة "
    "الأولى. تفحص المنارة مرتين في كل شتاء."
)
_ENGLISH = " ".join(
    f"In {year} the harbour master recorded the temperature of the water {count} times."
    for year, count in zip(range(1950, 1980), range(40, 70), strict=True)
)
PRINTED = {
    "hebrew": ("rtl", "דוח התחנה", _HEBREW, ""),
    "arabic": ("rtl", "تقرير المحطة", _ARABIC, ""),
    "columns": ("ltr", "Station Report", _ENGLISH, "column-count: 2; text-align: justify"),
}
"""Direction, heading, text and CSS of the text by name."""


def printed(name: str) -> MadePdf:
    """Return a PDF printed by Chromium."""
    direction, heading, text, style = PRINTED[name]
    page = (
        f"<meta charset=utf-8><body dir={direction} style='font: 12pt DejaVu Sans'>"
        f"<h1>{heading}</h1><p style='{style}'>{text}</p>"
    )
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "a.html", Path(folder) / "a.pdf"
        source.write_text(page, encoding="utf-8")
        subprocess.run(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
                f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}", str(source),
            ],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        raw = target.read_bytes()
    return MadePdf(name, raw, [(1, heading), (1, text)], [heading], title=heading)
