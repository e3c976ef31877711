"""Documents -> questions with gold spans that passed certification, balanced, without a model."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document, GoldSpan
from rag_pipeline.questions.certification import Candidate, Certifier
from rag_pipeline.questions.facts import KINDS, Fact, Kind, read_facts
from rag_pipeline.questions.wording import named, questions_of
from rag_pipeline.search.lexical_index.documents import readable_name

_ENTITY: dict[Kind, str] = {
    "duration": "TIME",
    "date": "TIME",
    "amount": "MONEY",
    "percentage": "PERCENTAGE",
    "party": "ORGANIZATION",
}
_NAMED = 0.6
"""Share of the questions that name their document where that passes."""
_TRIED = 3
"""A fact's questions are tried until one passes, at most this many and as many with a name."""


@dataclass(frozen=True, slots=True)
class Made:
    """The rows of a queries file, and how many questions were refused, by reason."""

    rows: list[dict[str, Any]]
    refused: Counter[str] = field(default_factory=Counter)
    facts: int = 0


def make_questions(
    documents: Sequence[Document],
    wanted: int,
    lexical: Lexical,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Made:
    """Return up to `wanted` questions of the rules, as rows for a queries file.

    Documents take turns, and in each document the kinds of facts, so that long documents and
    frequent kinds do not crowd out the others. The same documents give the same questions.
    """
    refused: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    by_document = [(d, list(read_facts(d))) for d in documents]
    names = _names(documents)
    seen: set[str] = set()
    with Certifier(documents, lexical) as certifier:
        for fact in _in_turns(by_document):
            if len(rows) >= wanted:
                break
            query = _certified(fact, names[fact.document_id], certifier, refused)
            if query is not None and query.casefold() not in seen:
                seen.add(query.casefold())
                rows.append(_row(fact, query))
                progress(len(rows), wanted)
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


def _names(documents: Iterable[Document]) -> dict[str, list[str]]:
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


def _row(fact: Fact, query: str) -> dict[str, Any]:
    digest = hashlib.sha256(f"{fact.document_id}#{fact.start}:{query}".encode()).hexdigest()[:8]
    row: dict[str, Any] = {
        "query_id": f"synthetic-{digest}",
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
