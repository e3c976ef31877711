"""Find the change that made a query better or worse between two releases or configurations.

The comparison copies one difference at a time from one build to the other, and searches again. The
cause is the difference that restores the result in the worse build, or spoils it in the better
build.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from rag_pipeline.chunking.spans import answers
from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.errors import InputError, UnknownReplyError
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.release.compared_builds import (
    ComparedBuild,
    Variation,
    VariationSearch,
    column_of,
    differing,
    gold_of,
    open_build,
)
from rag_pipeline.release.manifest import ReleaseSettings
from rag_pipeline.workspace import Workspace

Change = Literal[
    "document", "chunk", "context", "embedding", "retriever", "reranker", "lexical",
    "several", "unknown", "none",
]  # fmt: skip
CHANGES: Mapping[Change, str] = {
    "document": "the document changed",
    "chunk": "its chunks changed",
    "context": "its chunks' contexts changed",
    "embedding": "its chunks' vectors changed",
    "retriever": "the retriever's settings changed",
    "reranker": "the reranker's settings changed",
    "lexical": "the settings of BM25 changed",
    "several": "only several changes together make the difference",
    "unknown": "the comparison needs a model call",
    "none": "both find it at the same rank",
}
_OTHER_DOCUMENTS = 5
"""Number of documents without gold spans that are tried one by one, best rank first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The change that makes one build better than another build for a query.

    A rank is the rank of the first relevant chunk, or None if no chunk is relevant. `change` is the
    kind of difference that makes the worse build worse. `where` names the document or setting that
    differs.
    """

    query_id: str
    better: str
    worse: str
    change: Change
    rank_better: int | None = None
    rank_worse: int | None = None
    where: str = ""

    @property
    def sentence(self) -> str:
        """Return the cause in words."""
        ranks = [("not found" if r is None else f"rank {r}") for r in
                 (self.rank_better, self.rank_worse)]  # fmt: skip
        place = f" ({self.where})" if self.where else ""
        return f"{self.better}: {ranks[0]}, {self.worse}: {ranks[1]}; {CHANGES[self.change]}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """One difference between two builds that can be copied from one build to the other."""

    change: Change
    where: str
    documents: tuple[str, ...] = ()
    """The documents with copied rows."""
    setting: tuple[str, str | None] | None = None
    """The stage with copied settings, and the copied field or None for all fields."""


def causes(
    workspace: Workspace,
    first: str | ComparedBuild,
    second: str | ComparedBuild,
    query_ids: Sequence[str],
    k: int = 5,
) -> Iterator[Cause]:
    """Yield for each query the cause of different ranks in two builds.

    A build is open, or is the name of a release or configuration. Raise StoreError for an unknown
    build, and InputError for an unknown query id.
    """
    one, other = (
        open_build(workspace, build) if isinstance(build, str) else build
        for build in (first, second)
    )
    changed = differing(one, other)
    gold = [gold_of(workspace, query_ids, build) for build in (one, other)]
    queries = {q.query_id: q for q in load_queries(workspace)}
    with VariationSearch(workspace) as variations:
        for query_id in query_ids:
            if query_id not in queries:
                raise InputError(f"no query {query_id!r}")
            query = _ComparedQuery(
                variations=variations,
                query=queries[query_id].query,
                gold={b.name: g.get(query_id, []) for b, g in zip((one, other), gold, strict=True)},
                changed=changed,
                k=k,
            )
            cause = Cause(query_id=query_id, better=one.name, worse=other.name, change="unknown")
            with suppress(UnknownReplyError):
                cause = query.cause(cause, one, other)
            yield cause


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedQuery:
    variations: VariationSearch
    query: str
    gold: Mapping[str, Sequence[GoldSpan]]
    """Gold spans by the name of the build."""
    changed: Sequence[str]
    """Documents with different rows."""
    k: int

    def cause(self, unknown: Cause, one: ComparedBuild, other: ComparedBuild) -> Cause:
        """Return `unknown` with the cause. Raise UnknownReplyError if a model call is needed."""
        ranks = {build.name: self._rank(_unchanged(build)) for build in (one, other)}
        better, worse = sorted((one, other), key=lambda build: ranks[build.name])
        high, low = ranks[better.name], ranks[worse.name]
        found = replace(
            unknown,
            better=better.name,
            worse=worse.name,
            rank_better=None if math.isinf(high) else int(high),
            rank_worse=None if math.isinf(low) else int(low),
            change="none",
        )
        if high == low:
            return found
        limit = self.k if high <= self.k < low else high
        differences = list(self._differences(better, worse))
        scores = [self._score(d, better, worse, limit) for d in differences]
        best = max(scores, default=0)
        if not best:
            changes = ", ".join(dict.fromkeys(d.change for d in differences))
            return replace(found, change="several", where=changes)
        cause = differences[scores.index(best)]
        return replace(found, change=cause.change, where=cause.where)

    def _score(
        self, difference: _Difference, better: ComparedBuild, worse: ComparedBuild, limit: float
    ) -> int:
        """Return the number of tests (0 to 2) that confirm a difference as the cause.

        First test: with the difference from the better build, the worse build ranks a relevant
        chunk within `limit`. Second test: with the difference from the worse build, the better
        build does not.
        """
        restored = self._rank_or_none(_moved(difference, worse, better))
        spoiled = self._rank_or_none(_moved(difference, better, worse))
        return int(restored is not None and restored <= limit) + int(
            spoiled is not None and spoiled > limit
        )

    def _rank_or_none(self, variation: Variation) -> float | None:
        try:
            return self._rank(variation)
        except UnknownReplyError:
            return None

    def _rank(self, variation: Variation) -> float:
        """Return the rank of the first relevant chunk, or infinity if no chunk is relevant."""
        for rank, chunk in enumerate(self.variations.search(variation, self.query), 1):
            build = variation.rows[chunk.document_id]
            if any(answers(chunk, gold) for gold in self.gold[build.name]):
                return rank
        return math.inf

    def _differences(self, better: ComparedBuild, worse: ComparedBuild) -> Iterator[_Difference]:
        """Yield changed settings, then documents with gold spans, then other documents."""
        yield from _changed_settings(better.settings, worse.settings)
        if better.lexical != worse.lexical:
            yield _Difference(change="lexical", where="lexical", setting=("lexical", None))
        if better.settings.embedding != worse.settings.embedding:
            every = tuple(sorted({*better.by_document, *worse.by_document}))
            yield _Difference(
                change="embedding", where="the model", documents=every, setting=("embedding", None)
            )
            return
        gold = {span.document_id for spans in self.gold.values() for span in spans}
        others = [d for d in self.changed if d not in gold]
        found = self.variations.search(_unchanged(worse), self.query)
        ranked = dict.fromkeys(c.document_id for c in found)
        highest = [d for d in ranked if d in set(others)][:_OTHER_DOCUMENTS]
        for document in [*(d for d in self.changed if d in gold), *highest]:
            change = _change_of(document, better, worse)
            yield _Difference(change=change, where=document, documents=(document,))
        if len(others) > 1:
            change, where = _change_of(others[0], better, worse), f"{len(others)} other documents"
            yield _Difference(change=change, where=where, documents=tuple(others))


def _unchanged(build: ComparedBuild) -> Variation:
    return Variation(
        rows=dict.fromkeys(build.by_document, build),
        settings=build.settings,
        lexical=build.lexical,
        key=(build.name,),
    )


def _moved(difference: _Difference, base: ComparedBuild, donor: ComparedBuild) -> Variation:
    """Return `base` with one difference from `donor`."""
    rows = dict.fromkeys(base.by_document, base)
    for document in difference.documents:
        rows.pop(document, None)
        if document in donor.by_document:
            rows[document] = donor
    settings, lexical = base.settings, base.lexical
    stage, field = difference.setting or (None, None)
    if stage == "lexical":
        lexical = donor.lexical
    elif stage is not None:
        taken = getattr(donor.settings, stage)
        if field is not None:
            taken = getattr(base.settings, stage).model_copy(update={field: getattr(taken, field)})
        update = {stage: taken}
        if stage == "reranker":
            update["reranker_chats"] = donor.settings.reranker_chats
        settings = settings.model_copy(update=update)
    return Variation(
        rows=rows,
        settings=settings,
        lexical=lexical,
        key=(base.name, donor.name, difference.documents),
    )


def _changed_settings(better: ReleaseSettings, worse: ReleaseSettings) -> Iterator[_Difference]:
    """Yield each changed field of the retriever and reranker, and then the whole stage."""
    stages: tuple[Literal["retriever", "reranker"], ...] = ("retriever", "reranker")
    for stage in stages:
        one, other = getattr(better, stage), getattr(worse, stage)
        if one == other:
            continue
        changed: dict[str, str] = {}
        if type(one) is type(other):
            changed = {
                f: f"{f}: {getattr(one, f)} -> {getattr(other, f)}"
                for f in type(one).model_fields
                if getattr(one, f) != getattr(other, f)
            }
        for field, text in changed.items() if len(changed) > 1 else ():
            yield _Difference(change=stage, where=f"{stage}.{text}", setting=(stage, field))
        text = ", ".join(changed.values()) or f"{one.method} -> {other.method}"
        yield _Difference(change=stage, where=f"{stage}.{text}", setting=(stage, None))


def _change_of(document: str, better: ComparedBuild, worse: ComparedBuild) -> Change:
    """Return the earliest change in a document's rows: text, chunks, contexts or vectors."""
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
