"""Twenty documents a language, and four questions of each in words that are not theirs.

Written for this project: a line of languages.tsv is a fact in German and Chinese, and a question
for it in German, Chinese and English. Each document also holds paragraphs that all of them share.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

Language = Literal["de", "zh"]

_FACTS = Path(__file__).with_name("languages.tsv")
_SHARED = {
    "de": (
        "Diese Regelung ersetzt alle früheren Fassungen und gilt ab ihrer Veröffentlichung.",
        "Personenbezogene Daten werden nur verarbeitet, soweit es für die Abwicklung nötig ist.",
        "Änderungen werden rechtzeitig durch Aushang und auf der Internetseite bekannt gegeben.",
        "Für Fragen steht die Verwaltung während der Öffnungszeiten gern zur Verfügung.",
        "Sollte eine Bestimmung unwirksam sein, bleiben die übrigen davon unberührt.",
    ),
    "zh": (
        "本规定取代以前的所有版本，自公布之日起生效。",
        "个人信息仅在办理业务所必需的范围内处理。",
        "如有变更，将及时通过公告和网站通知。",
        "如有疑问，请在办公时间内与管理处联系。",
        "如某一条款无效，其余条款不受影响。",
    ),
}
_HEADS = {"de": "Bedingungen: {}", "zh": "{}规定"}


class Fact(NamedTuple):
    """A sentence of a document, and the question about it."""

    subject: str
    sentence: dict[Language, str]
    question: dict[str, str]
    """By language: `de`, `zh` and `en`."""


def facts() -> list[Fact]:
    """Return all facts, four a subject."""
    return [fact for fact, _ in _read()]


def _read() -> Iterator[tuple[Fact, list[str]]]:
    names: dict[str, list[str]] = {}
    for line in _FACTS.read_text("utf-8").splitlines():
        subject, german, chinese, *questions = line.split("\t")
        subject, *titles = subject.split("|")
        names[subject] = titles or names[subject]
        asked = dict(zip(("de", "zh", "en"), questions, strict=True))
        yield Fact(subject, {"de": german, "zh": chinese}, asked), names[subject]


def write_language_set(folder: Path, language: Language, asked: str) -> None:
    """Write documents in one language, and questions in `asked` (`de`, `zh` or `en`)."""
    texts: dict[str, list[str]] = {}
    queries: list[dict[str, Any]] = []
    for number, (fact, names) in enumerate(_read()):
        title = _HEADS[language].format(names[language == "zh"])
        paragraphs = texts.setdefault(fact.subject, [title])
        shared = _SHARED[language]
        before, after = shared[number % len(shared)], shared[(number + 2) % len(shared)]
        paragraphs.append(f"{before}\n\n{fact.sentence[language]} {after}")
        gold = {"document_id": f"{fact.subject}.txt", "quote": fact.sentence[language]}
        queries.append(
            {"query_id": str(number), "query": fact.question[asked], "gold_spans": [gold]}
        )
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    for subject, paragraphs in texts.items():
        text = "\n\n".join(paragraphs) + "\n"
        (folder / "documents" / f"{subject}.txt").write_text(text, "utf-8")
    lines = (json.dumps(query, ensure_ascii=False) for query in queries)
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
