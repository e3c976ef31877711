"""Make balanced, certified questions with gold spans from documents, without a model."""

import hashlib
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, starmap, zip_longest
from pathlib import PurePosixPath
from random import Random
from typing import Any, TypeVar

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document, GoldSpan
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.questions.certification import Certifier
from rag_pipeline.questions.facts import READ, read_facts
from rag_pipeline.questions.forms import NO_SUBJECT
from rag_pipeline.questions.naming import names_of
from rag_pipeline.questions.sections import EMPTY_HEADINGS
from rag_pipeline.questions.stated import KINDS, FactKind, StatedFact
from rag_pipeline.questions.two_documents import questions_of_two
from rag_pipeline.questions.unanswerable import unanswerable_questions
from rag_pipeline.questions.wording import questions_of, with_name, without_name
from rag_pipeline.search.standing import not_in_force

T = TypeVar("T")
_ENTITY: dict[FactKind, str] = {
    "duration": "TIME",
    "date": "TIME",
    "amount": "MONEY",
    "percentage": "PERCENTAGE",
}
_SEED = 15
RULES = 6
"""The version of the rules, in the metadata of each question."""
_TRIED = 3
"""Maximum number of wordings of a fact that are tried, with or without its document's name."""
_SKETCH = 128
"""Number of hashes that stand for a document."""
_COPIED = 0.9
_REASONS = {"copy": "a copy of another", "draft": "a draft"}
_MOST_TRIED = 6
"""Maximum number of facts tried per wanted question."""
_ENTRIES: tuple[FactKind, ...] = ("option", "variable", "purpose", "term", "abbreviation")
_LISTED: tuple[FactKind, ...] = (*_ENTRIES, "default", "section")
"""Kinds of facts that some documents list by the hundred, and whose questions are alike."""
_FEW = 50
"""`_LISTED` kinds fill up to this many questions, or at most half of more questions."""
_ALIKE = 0.8
"""Sentences of a document with more than this Jaccard similarity of words get one question."""
_ASKED_ALIKE = 3
"""Maximum number of documents about which the same question is asked."""
_TOPIC = re.compile(r"[^\W\d_][^\d:@]{2,39}")
"""A heading that a question may name. It is short, and no date or address."""
_SHORT = 4
"""A question of at most this many words of content may be about the section alone."""
_QUESTION_WORDS = frozenset(
    "what when within which does must will long often much high time were have".split()
)
QuestionRow = dict[str, Any]
"""A row of a queries file (`loading.queries.QueryRecord`)."""


@dataclass(frozen=True, slots=True)
class MadeQuestions:
    """The rows of a queries file, and the number of facts without a question by reason.

    `facts` is the number of facts that were found, or the number of prompts to a model. For a
    model, `refused` counts its wordings. `left_out` counts documents without a question by reason.
    """

    rows: list[QuestionRow]
    refused: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def make_questions(
    documents: Sequence[Document],
    wanted: int,
    lexical: Lexical,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    several: int = 0,
    unanswerable: int = 0,
) -> MadeQuestions:
    """Return up to `wanted` questions by rules, as rows for a queries file.

    Up to `several` more questions need two documents. Up to `unanswerable` more have no answer.
    Questions name their document, unless there is only one document. Documents and kinds of facts
    take turns. Documents that are not in force and near copies are left out. The same documents
    give the same questions.

    `progress` gets the number of documents read and facts tried, and their total number.
    """
    rows: list[QuestionRow] = []
    listed: list[QuestionRow] = []
    in_force = documents_in_force(documents)
    left_out = Counter(reasons_not_in_force(documents).values())
    documents = distinct_documents(in_force)
    left_out["a copy of another"] += len(in_force) - len(documents)
    skipped = left_out.total()
    by_document = []
    for number, document in enumerate(documents):
        progress(number, skipped + len(documents))
        by_document.append((document, own := list(read_facts(document))))
        if not own:
            is_read = (language_of(document.text) or "en") in READ
            left_out["no fact that the rules read" if is_read else "another language"] += 1
    names = names_of(documents)
    seen: set[str] = set()
    with Certifier(documents, lexical) as certifier:

        def keep(row: QuestionRow, kept: list[QuestionRow] = rows) -> None:
            if row["query"].casefold() not in seen:
                seen.add(row["query"].casefold())
                kept.append(row)

        facts = list(_in_turns(by_document))
        told, asked = set(), Counter[str]()
        near: defaultdict[str, list[set[str]]] = defaultdict(list)
        tried, read = facts[: _MOST_TRIED * wanted], skipped + len(documents)
        for number, fact in enumerate(tried):
            progress(read + number, read + len(tried))
            said = fact.kind, fact.question, fact.answer.casefold()
            words = {*re.findall(r"\w+", fact.sentence.casefold())}
            others, is_listed = near[fact.document_id], fact.kind in _LISTED
            is_near = any(len(words & own) > _ALIKE * len(words | own) for own in others)
            is_told = is_near or said in told or asked[fact.question] >= _ASKED_ALIKE
            if (is_told and not fact.quantity) or (is_listed and len(listed) >= wanted):
                certifier.refuse("asked already")
                continue
            if query := _certified(fact, names[fact.document_id], certifier):
                told.add(said)
                others.append(words)
                asked[fact.question] += bool(fact.question)
                keep(_row(fact, query), listed if is_listed else rows)
            if len(rows) >= wanted:
                break
        progress(read + len(tried), read + len(tried))
        rows += listed[: min(wanted - len(rows), max(len(rows), _FEW - len(rows)))]
        of_two = starmap(_row_of_two, questions_of_two(facts, names, certifier, Random(_SEED)))
        absent = unanswerable_questions(facts, documents, names, certifier, Random(_SEED))
        of_none = (made_row(q, q, [], None, [UNANSWERABLE, sort]) for q, sort in absent)
        for made, number in ((of_two, several), (of_none, unanswerable)):
            end = len(rows) + number
            while len(rows) < end and (row := next(made, None)):
                keep(row)
    about = {span["document_id"] for row in rows for span in row["gold_spans"]}
    with_facts = {fact.document_id for fact in facts}
    left_out["no question passed"] = len(with_facts - about)
    return MadeQuestions(rows, certifier.refused, len(facts), +left_out)


def documents_in_force(documents: Sequence[Document]) -> list[Document]:
    """Return the documents that no other document replaces (see `search.standing`)."""
    replaced = reasons_not_in_force(documents)
    return [d for d in documents if d.document_id not in replaced]


def reasons_not_in_force(documents: Sequence[Document]) -> dict[str, str]:
    """Map the ids of drafts, and of copied or replaced documents, to the reason."""
    kinds = not_in_force([d.document_id for d in documents])
    return {d: _REASONS.get(kind, "not in force") for d, kind in kinds.items()}


def distinct_documents(documents: Sequence[Document]) -> list[Document]:
    """Return the documents without near copies. The copy with the shortest id stays.

    Copies share 90 % of their runs of three words, and one copy has all figures of the other.
    The share is estimated by the least hashes (Broder, On the resemblance and containment of
    documents, 1997).
    """
    kept: set[str] = set()
    read: list[tuple[set[int], set[str]]] = []
    holding: defaultdict[int, list[int]] = defaultdict(list)
    for document in sorted(documents, key=lambda d: (len(d.document_id), d.document_id)):
        words = re.findall(r"\w+", document.text.casefold())
        runs = (" ".join(words[n : n + 3]) for n in range(max(1, len(words) - 2)))
        sketch = set(sorted({zlib.crc32(run.encode()) for run in runs})[:_SKETCH])
        figures = {word for word in words if word[0].isdecimal()}
        near = {n for part in sketch for n in holding[part]}
        if not any(_are_copies(read[n], (sketch, figures)) for n in near):
            kept.add(document.document_id)
            for part in sketch:
                holding[part].append(len(read))
            read.append((sketch, figures))
    return [d for d in documents if d.document_id in kept]


def _are_copies(one: tuple[set[int], set[str]], other: tuple[set[int], set[str]]) -> bool:
    least = set(sorted(one[0] | other[0])[:_SKETCH])
    is_alike = len(least & one[0] & other[0]) >= _COPIED * len(least)
    return is_alike and (one[1] <= other[1] or other[1] <= one[1])


def _certified(fact: StatedFact, names: Sequence[str], certifier: Certifier) -> str | None:
    """Return a question about a fact, or None if no question about it passes certification.

    If there are several documents, most questions name their document, because another document
    may have another "tenant".
    """
    seed = f"{fact.document_id}#{fact.start}:{fact.kind}"
    random = Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    problem = "no wording"
    is_known = fact.quantity or fact.kind in ("cell", "default", "purpose")
    # The document defines an abbreviation or an option once.
    is_only = fact.kind in ("cell", "default", *_ENTRIES) and fact.kind != "purpose"
    if fact.kind in _ENTRIES[:3]:  # The name must be the program's.
        names = [name for name in names if name[0] == "“"]
    answer = fact.answer if is_known else None
    for question in islice(questions_of(fact, random), _TRIED):
        bare = without_name(question)
        tried = [bare] if certifier.is_alone else []
        said = (re.escape(name.removeprefix("the file ").strip("“”")) for name in names)
        held = any(re.search(rf"(?<![\w-]){name}(?![\w-])", bare, re.I) for name in said)
        if held and fact.kind not in ("cell", "section"):
            tried = [bare]
        elif names:
            name = f"{_section_of(bare, fact)}{random.choice(names)}"
            tried.append(with_name(question, name, random, fact.language))
        for query in tried:
            found = certifier.problem(query, fact.gold, answer, is_only)
            if found is None:
                return query
            problem = found
    certifier.refuse(problem)
    return None


def _section_of(question: str, fact: StatedFact) -> str:
    """Return "“Heading” of " if a short question about a value has no word of its heading.

    Under "Company cards", "the limit for a purchase" is not the limit of all purchases.
    """
    words = re.findall(r"[^\W\d_]{4,}|fee", question.casefold())
    heading = re.findall(r"[^\W\d_]{4,}", fact.section.casefold())
    is_topic = heading and EMPTY_HEADINGS.isdisjoint(heading) and _TOPIC.fullmatch(fact.section)
    is_odd = NO_SUBJECT.match(fact.section)
    is_asked = {word[:4].rstrip("s") for word in words} & {word[:4].rstrip("s") for word in heading}
    is_short = len({*words} - _QUESTION_WORDS) <= _SHORT
    if is_odd or not is_topic or not fact.quantity or is_asked or not is_short:
        return ""
    shown = fact.section.capitalize() if fact.section.isupper() else fact.section
    return f"the section “{shown}” of "


def _in_turns(by_document: Sequence[tuple[Document, Sequence[StatedFact]]]) -> Iterator[StatedFact]:
    """Yield facts in turns: by folder and format, then by document, then by kind of fact."""
    queues: defaultdict[tuple[str, str], list[list[StatedFact]]] = defaultdict(list)
    for number, (document, facts) in enumerate(by_document):
        path = PurePosixPath(document.document_id)
        kinds = [[f for f in facts if f.kind == kind] for kind in KINDS]
        kinds = [_spread(k) for k in (*kinds[number % len(kinds) :], *kinds[: number % len(kinds)])]
        queues[str(path.parent), path.suffix].append(list(round_robin(kinds)))
    return round_robin([list(round_robin(group)) for group in queues.values()])


def round_robin(queues: Sequence[Iterable[T]]) -> Iterator[T]:
    """Yield the first item of each queue, then the second item of each queue, and so on."""
    for turn in zip_longest(*queues):
        yield from (one for one in turn if one is not None)


def _spread(facts: list[StatedFact]) -> list[StatedFact]:
    order = sorted(range(len(facts)), key=lambda i: f"{i:b}"[::-1])
    return [facts[i] for i in order]


def _row(fact: StatedFact, query: str) -> QuestionRow:
    seed = f"{fact.document_id}#{fact.start}:{query}"
    row = made_row(seed, query, [fact.gold], fact.answer, [fact.kind])
    entity = _ENTITY.get(fact.kind)
    if entity:
        row["entities"] = {entity: [[fact.said]]}
        row["critical_types"] = [entity]
    return row


def _row_of_two(query: str, facts: tuple[StatedFact, StatedFact]) -> QuestionRow:
    one, other = (_row(fact, query) for fact in facts)
    kinds = one.get("entities", {})
    return {
        **one,
        "query_id": _row_id(query),
        "gold_spans": one["gold_spans"] + other["gold_spans"],
        "answer": f"{one['answer']}; {other['answer']}",
        "entities": {kind: groups + other["entities"][kind] for kind, groups in kinds.items()},
        "tags": [*one["tags"], "several documents"],
    }


def made_row(
    seed: str, query: str, gold: Sequence[GoldSpan], answer: str | None, tags: list[str]
) -> QuestionRow:
    """Return the row of a synthetic question. Its id is a hash of `seed`."""
    row: QuestionRow = {
        "query_id": _row_id(seed),
        "query": query,
        "gold_spans": [asdict(span) for span in gold],
        "tags": tags,
        "synthetic": True,
        "metadata": {"rules": RULES},
    }
    return {**row, "answer": answer} if answer and answer.strip() else row


def _row_id(text: str) -> str:
    return f"synthetic-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
