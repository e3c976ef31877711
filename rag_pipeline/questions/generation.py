"""Documents -> questions with gold spans that passed certification, balanced, without a model."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NotRequired, TypedDict

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document, GoldSpan
from rag_pipeline.questions.certification import Candidate, Certifier
from rag_pipeline.questions.facts import KINDS, Fact, Kind, read_facts
from rag_pipeline.questions.several import questions_of_two
from rag_pipeline.questions.unanswerable import Sort, unanswerable_questions
from rag_pipeline.questions.wording import named, questions_of
from rag_pipeline.search.lexical_index.documents import readable_name

_ENTITY: dict[Kind, str] = {
    "duration": "TIME",
    "date": "TIME",
    "amount": "MONEY",
    "percentage": "PERCENTAGE",
    "party": "ORGANIZATION",
}
UNANSWERABLE = "unanswerable"
"""The tag of questions that no document answers."""
_SEED = 15
_NAMED = 0.6
"""Share of the questions that name their document where that passes."""
_TRIED = 3
"""A fact's questions are tried until one passes, at most this many and as many with a name."""


class SpanRow(TypedDict):
    """A gold span as a queries file holds it."""

    document_id: str
    start: int
    end: int


class QuestionRow(TypedDict):
    """A made question as a queries file holds it."""

    query_id: str
    query: str
    gold_spans: list[SpanRow]
    answer: NotRequired[str]
    tags: list[str]
    synthetic: bool
    entities: NotRequired[dict[str, list[list[str]]]]
    critical_types: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class Made:
    """The rows of a queries file, and how many questions were refused, by reason."""

    rows: list[QuestionRow]
    refused: Counter[str] = field(default_factory=Counter)
    facts: int = 0


def make_questions(
    documents: Sequence[Document],
    wanted: int,
    lexical: Lexical,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    several: int = 0,
    unanswerable: int = 0,
) -> Made:
    """Return up to `wanted` questions of the rules, as rows for a queries file.

    Besides, up to `several` that two documents answer together and up to `unanswerable` that none
    answers; those have no gold spans and the tag "unanswerable". Documents take turns, and in each
    document the kinds of facts, so that long documents and frequent kinds do not crowd out the
    others. The same documents give the same questions.
    """
    refused: Counter[str] = Counter()
    rows: list[QuestionRow] = []
    by_document = [(d, list(read_facts(d))) for d in documents]
    names = titles(documents)
    seen: set[str] = set()
    with Certifier(documents, lexical) as certifier:
        total = wanted + several + unanswerable

        def keep(query: str, row: QuestionRow) -> None:
            if query.casefold() not in seen:
                seen.add(query.casefold())
                rows.append(row)
                progress(len(rows), total)

        facts = list(_in_turns(by_document))
        for fact in facts:
            if len(rows) >= wanted:
                break
            query = _certified(fact, names[fact.document_id], certifier, refused)
            if query is not None:
                keep(query, _row(fact, query))
        end = len(rows) + several
        if several:
            pairs = questions_of_two(facts, names, certifier, refused, Random(_SEED))
            while len(rows) < end and (two := next(pairs, None)):
                keep(two[0], _row_of_two(*two))
        end = len(rows) + unanswerable
        if unanswerable:
            absent = unanswerable_questions(
                facts, documents, names, certifier, refused, Random(_SEED)
            )
            while len(rows) < end and (one := next(absent, None)):
                keep(one[0], _row_without_answer(*one))
    return Made(rows, refused, sum(len(facts) for _, facts in by_document))


def _certified(
    fact: Fact, names: Sequence[str], certifier: Certifier, refused: Counter[str]
) -> str | None:
    """Return a question of the fact that passes."""
    seed = f"{fact.document_id}#{fact.start}:{fact.kind}"
    random = Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    gold = GoldSpan(fact.document_id, fact.start, fact.end)
    answer = ", ".join(fact.names) or (fact.answer if fact.quantity else None)
    bare = list(questions_of(fact, random))[:_TRIED]
    with_name = [named(q, random.choice(names), random) for q in bare for _ in range(2) if names]
    # People often say which document they mean, also where they need not.
    forms = [bare, with_name[:_TRIED]]
    if random.random() < _NAMED:
        forms.reverse()
    for query in (query for form in forms for query in form):
        problem = certifier.problem(Candidate(query, gold, answer))
        if problem is None:
            return query
        refused[problem.partition(":")[0]] += 1
    return None


def titles(documents: Iterable[Document]) -> dict[str, list[str]]:
    """Return what each document may be called in a question: titles that no other one has."""
    documents = list(documents)
    titles = Counter(d.title.casefold() for d in documents)
    found: dict[str, list[str]] = {}
    for document in documents:
        title = " ".join(document.title.split())
        name = readable_name(document.document_id)
        names = [f"“{title}”", title] if title and titles[title.casefold()] == 1 else []
        if not names and name.casefold() != title.casefold():
            names = [f"the {name}" if " " in name else name, f"“{name}”"]
        found[document.document_id] = [n for n in names if len(n.split()) <= 14]
    return found


def _in_turns(by_document: Sequence[tuple[Document, Sequence[Fact]]]) -> Iterator[Fact]:
    """Yield facts, one of each document in turn; of a document one of each kind in turn."""
    queues: list[list[Fact]] = []
    for number, (_, facts) in enumerate(by_document):
        kinds = [[f for f in facts if f.kind == kind] for kind in KINDS]
        # Each document starts at another kind, and its facts come from all over it.
        kinds = [_spread(k) for k in (*kinds[number % len(kinds) :], *kinds[: number % len(kinds)])]
        depth = max(map(len, kinds), default=0)
        queues.append([k[i] for i in range(depth) for k in kinds if i < len(k)])
    for turn in range(max(map(len, queues), default=0)):
        for queue in queues:
            if turn < len(queue):
                yield queue[turn]


def _spread(facts: list[Fact]) -> list[Fact]:
    """Return the facts so that the first few of them lie far apart."""
    order = sorted(range(len(facts)), key=lambda i: f"{i:b}"[::-1])
    return [facts[i] for i in order]


def _row(fact: Fact, query: str) -> QuestionRow:
    row: QuestionRow = {
        "query_id": row_id(f"{fact.document_id}#{fact.start}:{query}"),
        "query": query,
        "gold_spans": [
            {"document_id": fact.document_id, "start": fact.start, "end": fact.end},
        ],
        "answer": ", ".join(fact.names) or fact.answer,
        "tags": [fact.kind],
        "synthetic": True,
    }
    entity = _ENTITY.get(fact.kind)
    if entity:
        row["entities"] = {entity: [[name] for name in fact.names] or [[fact.answer]]}
        row["critical_types"] = [entity]
    return row


def _row_of_two(query: str, facts: tuple[Fact, Fact]) -> QuestionRow:
    one, other = (_row(fact, query) for fact in facts)
    kinds = one.get("entities", {})
    return {
        **one,
        "query_id": row_id(query),
        "gold_spans": one["gold_spans"] + other["gold_spans"],
        "answer": f"{one['answer']}; {other['answer']}",
        "entities": {kind: groups + other["entities"][kind] for kind, groups in kinds.items()},
        "tags": [*one["tags"], "several documents"],
    }


def _row_without_answer(query: str, sort: Sort) -> QuestionRow:
    return {
        "query_id": row_id(query),
        "query": query,
        "gold_spans": [],
        "tags": [UNANSWERABLE, sort],
        "synthetic": True,
    }


def row_id(text: str) -> str:
    """Return the id of a made question, from what it is made of."""
    return f"synthetic-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
