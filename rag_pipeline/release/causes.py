"""Questions won or lost between two releases or configurations -> the change that did it.

One thing at a time is taken from the one side into the other and the question asked again: what
restores the better result, and what spoils it, is the cause.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.errors import InputError, UnknownReplyError
from rag_pipeline.evaluation.answer_presence import answers
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.release.reruns import (
    Mixture,
    Reruns,
    Side,
    column_of,
    differing,
    gold_of,
    open_side,
)
from rag_pipeline.release.settings import ReleasedSettings
from rag_pipeline.workspace import Workspace

Change = Literal[
    "document", "chunk", "context", "embedding", "retriever", "reranker", "lexical",
    "several", "unknown", "none",
]  # fmt: skip
CHANGES: Mapping[Change, str] = {
    "document": "the document changed",
    "chunk": "it is chunked otherwise",
    "context": "its chunks have other contexts",
    "embedding": "its chunks are embedded otherwise",
    "retriever": "the retriever is set otherwise",
    "reranker": "the reranker is set otherwise",
    "lexical": "BM25 is set otherwise",
    "several": "only several changes together make the difference",
    "unknown": "trying it needs a call of a model",
    "none": "both find it at the same rank",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a question stands better on one side: the change, the document or setting concerned.

    Ranks are those of the first chunk that answers, None where none was found. `change` is what
    the worse side has and the better one has not.
    """

    query_id: str
    better: str
    worse: str
    rank_better: int | None
    rank_worse: int | None
    change: Change
    where: str = ""

    @property
    def sentence(self) -> str:
        """Return the cause in words."""
        ranks = [("not found" if r is None else f"rank {r}") for r in
                 (self.rank_better, self.rank_worse)]  # fmt: skip
        place = f" ({self.where})" if self.where else ""
        return f"{self.better}: {ranks[0]}, {self.worse}: {ranks[1]}; {CHANGES[self.change]}{place}"


@dataclass(frozen=True, slots=True)
class _Trial:
    """One thing to take from a side into the other."""

    change: Change
    where: str
    rows: tuple[str, ...] = ()
    """The documents whose rows it takes."""
    settings: tuple[tuple[str, str | None], ...] = ()
    """The settings that it takes: a stage, or one field of it."""


def causes(
    workspace: Workspace, one: str, other: str, query_ids: Sequence[str], k: int = 5
) -> Iterator[Cause]:
    """Return for each question why one side finds its answer and the other does not.

    Within the first k, or else at a higher rank. Raises StoreError where a side is not there.
    """
    sides = open_side(workspace, one), open_side(workspace, other)
    return causes_between(workspace, *sides, query_ids, k)


def causes_between(
    workspace: Workspace, one: Side, other: Side, query_ids: Sequence[str], k: int = 5
) -> Iterator[Cause]:
    """Yield the causes for two sides that are open."""
    sides = one, other
    changed = differing(*sides)
    gold = [gold_of(workspace, query_ids, side) for side in sides]
    queries = {q.query_id: q for q in load_queries(workspace)}
    with Reruns(workspace) as reruns:
        for query_id in query_ids:
            if query_id not in queries:
                raise InputError(f"no query {query_id!r}")
            spans = {s.name: g.get(query_id, []) for s, g in zip(sides, gold, strict=True)}
            asked = _Question(reruns, queries[query_id].query, spans, changed, k)
            yield asked.cause(query_id, *sides)


@dataclass(frozen=True, slots=True)
class _Question:
    reruns: Reruns
    query: str
    gold: Mapping[str, Sequence[GoldSpan]]
    changed: Sequence[str]
    k: int

    def cause(self, query_id: str, one: Side, other: Side) -> Cause:
        try:
            return self._cause(query_id, one, other)
        except UnknownReplyError:
            return Cause(query_id, one.name, other.name, None, None, "unknown")

    def _cause(self, query_id: str, one: Side, other: Side) -> Cause:
        ranks = {side.name: self._rank(_whole(side)) for side in (one, other)}
        better, worse = sorted((one, other), key=lambda side: ranks[side.name])
        first, last = ranks[better.name], ranks[worse.name]
        low, high = (None if math.isinf(r) else int(r) for r in (first, last))
        found = Cause(query_id, better.name, worse.name, low, high, "none")
        if first == last:
            return found
        limit = self.k if first <= self.k < last else first
        trials = list(self._trials(better, worse))
        scored = [(self._score(t, better, worse, limit), t) for t in trials]
        best = max((score for score, _ in scored), default=0)
        if not best:
            differ = ", ".join(dict.fromkeys(t.change for t in trials))
            return replace(found, change="several", where=differ)
        trial = next(t for score, t in scored if score == best)
        return replace(found, change=trial.change, where=trial.where)

    def _score(self, trial: _Trial, better: Side, worse: Side, limit: float) -> int:
        """Count in how many directions a thing makes the difference: it restores, it spoils."""
        restores = self._rank_or_none(_with(trial, worse, better))
        spoils = self._rank_or_none(_with(trial, better, worse))
        return int(restores is not None and restores <= limit) + int(
            spoils is not None and spoils > limit
        )

    def _rank_or_none(self, mixture: Mixture) -> float | None:
        try:
            return self._rank(mixture)
        except UnknownReplyError:
            return None

    def _rank(self, mixture: Mixture) -> float:
        for rank, chunk in enumerate(self.reruns.ask(mixture, self.query), 1):
            side = mixture.rows[chunk.document_id]
            if any(answers(chunk, gold) for gold in self.gold[side.name]):
                return rank
        return math.inf

    def _trials(self, better: Side, worse: Side) -> Iterator[_Trial]:
        """Yield what differs, one thing each: settings, the gold's documents, then the others."""
        yield from _settings_trials(better.settings, worse.settings)
        if better.lexical != worse.lexical:
            yield _Trial("lexical", "lexical", settings=(("lexical", None),))
        if better.settings.embedding != worse.settings.embedding:
            every = tuple(sorted({*better.by_document, *worse.by_document}))
            yield _Trial("embedding", "the model", every, (("embedding", None),))
            return
        own = {span.document_id for spans in self.gold.values() for span in spans}
        golden = [d for d in self.changed if d in own]
        others = [d for d in self.changed if d not in own]
        for document in golden:
            yield _Trial(_what_changed(document, better, worse), document, (document,))
        # Of the others, those that stand highest on the worse side.
        found = dict.fromkeys(c.document_id for c in self.reruns.ask(_whole(worse), self.query))
        for document in [d for d in found if d in set(others)][:5]:
            yield _Trial(_what_changed(document, better, worse), document, (document,))
        if len(others) > 1:
            what = _what_changed(others[0], better, worse)
            yield _Trial(what, f"{len(others)} other documents", tuple(others))


def _whole(side: Side) -> Mixture:
    rows = dict.fromkeys(side.by_document, side)
    return Mixture(rows, side.settings, side.lexical, (side.name,))


def _with(trial: _Trial, base: Side, donor: Side) -> Mixture:
    """Return a side with one thing of the other."""
    rows = dict.fromkeys(base.by_document, base)
    for document in trial.rows:
        rows.pop(document, None)
        if document in donor.by_document:
            rows[document] = donor
    settings, lexical = base.settings, base.lexical
    for stage, name in trial.settings:
        if stage == "lexical":
            lexical = donor.lexical
            continue
        taken = getattr(donor.settings, stage)
        if name is not None:
            taken = getattr(base.settings, stage).model_copy(update={name: getattr(taken, name)})
        settings = settings.model_copy(update={stage: taken})
        if stage == "reranker":
            its = donor.settings
            chats = {"reranker_chat": its.reranker_chat, "reranker_chats": its.reranker_chats}
            settings = settings.model_copy(update=chats)
    return Mixture(rows, settings, lexical, (base.name, donor.name, trial.rows))


def _settings_trials(better: ReleasedSettings, worse: ReleasedSettings) -> Iterator[_Trial]:
    for stage in ("retriever", "reranker"):
        one, other = getattr(better, stage), getattr(worse, stage)
        if one == other:
            continue
        change: Change = "retriever" if stage == "retriever" else "reranker"
        fields: list[str] = []
        if type(one) is type(other):
            fields = [f for f in type(one).model_fields if getattr(one, f) != getattr(other, f)]
        for name in fields if len(fields) > 1 else ():
            said = f"{stage}.{name}: {getattr(one, name)} -> {getattr(other, name)}"
            yield _Trial(change, said, settings=((stage, name),))
        values = [f"{f}: {getattr(one, f)} -> {getattr(other, f)}" for f in fields]
        said = ", ".join(values) or f"{one.method} -> {other.method}"
        yield _Trial(change, f"{stage}.{said}", settings=((stage, None),))


def _what_changed(document: str, better: Side, worse: Side) -> Change:
    """Return the earliest stage in which a document's rows differ."""
    one, other = better.by_document.get(document), worse.by_document.get(document)
    if one is None or other is None:
        return "document"
    if set(column_of(one, "content_hash")) != set(column_of(other, "content_hash")):
        return "document"
    stages: tuple[tuple[Change, tuple[str, ...]], ...] = (
        ("chunk", ("start", "end", "text")),
        ("context", ("context",)),
    )
    for change, names in stages:
        if any(column_of(one, n) != column_of(other, n) for n in names):
            return change
    return "embedding"
