"""Find the calls of searching, reranking, answering and judging by dry runs of these steps.

The prompts equal the prompts of a run. If the documents or settings change, an expected index is
searched (see `expected_index`). Without a last run, every query gets as many chunks of the mean
length as the search may return.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_pipeline.answering.forms import NEUTRAL_QUERIES
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import USUAL_OUTPUT
from rag_pipeline.config import Configuration, PassageReranker
from rag_pipeline.config.rerankers import RerankInput
from rag_pipeline.datamodels import Answer, Query
from rag_pipeline.errors import UnknownReplyError
from rag_pipeline.evaluation import runs
from rag_pipeline.evaluation.answers import load_answers, save_answers
from rag_pipeline.evaluation.queries import (
    queries_are_current,
    queries_digest,
    save_queries,
    update_queries,
)
from rag_pipeline.evaluation.results import ANSWERS, RUN
from rag_pipeline.indexing import Plan
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.embedding import Embedded, request
from rag_pipeline.pipeline.dry_run.expected_index import (
    Change,
    ExpectedIndex,
    Row,
    expect_index,
    last_index,
    reorder,
)
from rag_pipeline.pipeline.dry_run.priced_models import (
    asks_a_chat,
    learned_of,
    paid_reranker,
    searching_models,
)
from rag_pipeline.pipeline.dry_run.tables import DryResult
from rag_pipeline.pipeline.dry_run.workspace import DryWorkspace
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.search.pinned import open_index, pin
from rag_pipeline.search.reranking.passages import passage_scorer
from rag_pipeline.search.retrieval import parse_query
from rag_pipeline.search.vector_index import indexed_text

_USUAL_ANSWER = "x" * (4 * USUAL_OUTPUT)


@dataclass(slots=True)
class DryQueries:
    """The dry runs of the steps that search, answer and judge, one after the other."""

    dry: DryWorkspace
    chosen: Collection[Step]
    """The steps of the plan."""
    queries: Sequence[Query]
    folder: Path
    """A temporary folder for expected indexes."""
    tables: Mapping[Step, DryResult] = field(default_factory=dict)
    """The dry results of the tables."""
    estimated: set[Step] = field(default_factory=set)
    """Steps with other results in the run than in the dry run."""
    unknown: set[Step] = field(default_factory=set)
    """Steps with unknown results."""
    _expected: dict[str, ExpectedIndex] = field(default_factory=dict)
    """The last expected index, by the key of its vectors."""

    def search(self, step: Step, index_stays: bool) -> tuple[DryResult, DryResult | None]:
        """Search with every query, and return the calls of the embedding and of the reranker.

        The second result is None if the reranker is free and uses no prompts. If `index_stays` is
        True, the run searches the current indexes. If some queries have no vectors, the other
        queries are searched only if a model reads their results.
        """
        dry, config = self.dry, self.dry.config
        configuration = config.configuration(step.partition or "")
        settings = config.rerankers[configuration.reranker]
        counts = isinstance(settings, PassageReranker) and bool(
            settings.chat_used(config) or paid_reranker(dry, configuration)
        )
        is_read = counts or self._is_read(step)
        dry.cache.learned = learned_of(dry, step)
        dry.cache.begin(reads=is_read)
        left = self.queries
        with suppress(UnknownReplyError):
            if index_stays:
                note = runs.update_run(dry, configuration)
                self._reorder_run(configuration, note["failed"])
                left = []
            else:
                embed = dry.embed(configuration.embedding, input_type="query")
                embed([query.query for query in self.queries])
        found = index_stays and not left
        if index_stays and left and is_read:
            left = self._search_embedded(configuration)
        # A retriever may add words to a query, or remove the name of a document in its index.
        # Otherwise the texts to embed are known before the run.
        retriever = config.retrievers[configuration.retriever]
        certain = not retriever.adds_queries and (index_stays or not retriever.splits_query)
        searching = DryResult(exact=found or certain)
        searching.calls = dict(dry.cache.missing.get("embedding", {}))
        known = found or not (is_read and left) or self._stand_in(configuration, left)
        scoring_known = (
            found or not counts or (known and self._rerank_expected(configuration, left))
        )
        scores = {**dry.cache.missing.get("chat", {}), **dry.cache.missing.get("rerank", {})}
        if not found or scores:
            self.estimated.add(step)
        if not known:
            self.unknown.add(step)
        scoring = DryResult(calls=scores, calls_known=scoring_known, exact=found)
        return searching, scoring if counts else None

    def _reorder_run(self, configuration: Configuration, query_ids: Collection[str]) -> None:
        """Order the rows of queries without scores as the reranker is expected to do."""
        found: dict[str, list[Row]] = {}
        for row in RUN.rows(self.dry, configuration.name):
            found.setdefault(row["query_id"], []).append(row)
        unscored = {query_id: found[query_id] for query_id in query_ids if query_id in found}
        self._reorder(configuration, unscored, {})
        made = [{**row, "rank": n} for own in found.values() for n, row in enumerate(own, 1)]
        RUN.write(self.dry, pa.Table.from_pylist(made, RUN.schema), {}, configuration.name)

    def _search_embedded(self, configuration: Configuration) -> Sequence[Query]:
        """Search with the queries that have vectors. Return the queries without a search."""
        dry = self.dry
        index = open_index(dry, pin(dry, configuration))
        settings = dry.config.retrievers[configuration.retriever]
        embed = dry.embed(configuration.embedding, input_type="query")
        embedded, left = [], []
        for query in self.queries:
            try:
                embed([parse_query(index, query.query, settings).search_text])
                embedded.append(query)
            except UnknownReplyError:
                left.append(query)
        with suppress(UnknownReplyError):
            runs.update_run(dry, configuration, embedded)
            return left
        return self.queries

    def judge(self, step: Step) -> DryResult:
        """Run a step that answers queries or judges contexts or answers. Return its calls."""
        config = self.dry.config
        asks = asks_a_chat(config, step)
        searching = self._search_for_more(step)
        if not asks and not self._is_read(step):
            return searching
        assert step.row.update is not None
        before = {Step(asset, step.partition) for asset in step.row.reads}
        result = DryResult(calls_known=not before & self.unknown, exact=not before & self.estimated)
        self.dry.cache.learned = learned_of(self.dry, step)
        self.dry.cache.begin()
        answered = False
        if result.calls_known:
            with suppress(UnknownReplyError):
                step.row.update(self.dry, step.key(config))
                answered = not any(self.dry.cache.missing.values())
        if step.asset == "answers" and not (answered and result.exact):
            self.estimated.add(step)
            self._stand_in_answers(config.configuration(step.partition or ""))
        if not asks:
            return searching
        result.calls = dict(self.dry.cache.missing.get("chat", {}))
        return result

    def _search_for_more(self, step: Step) -> DryResult:
        """Return the highest possible calls of the second search of extractive answers."""
        dry = self.dry
        if not searching_models(dry, step):
            return DryResult()
        configuration = dry.config.configuration(step.partition or "")
        reranker = dry.config.rerankers[configuration.reranker]
        dry.cache.learned = learned_of(dry, step)
        dry.cache.begin()
        with suppress(UnknownReplyError):
            dry.embed(configuration.embedding, input_type="query")(list(NEUTRAL_QUERIES))
        self._rerank_usual(configuration, [Query(text, text) for text in NEUTRAL_QUERIES])
        missing = dry.cache.missing
        embedded, scored = missing.get("embedding", {}), missing.get("rerank", {})
        dry.cache.asked |= dict.fromkeys(embedded, dry.config.embeddings[configuration.embedding])
        dry.cache.asked |= dict.fromkeys(scored, reranker)
        return DryResult(calls={**embedded, **scored, **missing.get("chat", {})}, exact=False)

    def _is_read(self, step: Step) -> bool:
        """Return whether a chat model reads the result of a step."""
        return any(
            asks_a_chat(self.dry.config, after) or self._is_read(after)
            for after in self.chosen
            if after.row.runs_dry
            and after.partition == step.partition
            and step.asset in after.row.reads
        )

    def _rerank_usual(self, configuration: Configuration, queries: Sequence[Query]) -> bool:
        """Record calls to rerank passages of mean length. Return False if there are no passages."""
        settings = self.dry.config.rerankers[configuration.reranker]
        length = self._usual_length(configuration, with_context=True)
        if not isinstance(settings, PassageReranker) or length is None:
            return False
        passages = (_passages(q, settings.candidates, length) for q in queries)
        asked = [RerankInput(q.query, p) for q, p in zip(queries, passages, strict=True)]
        return self._score(settings, asked)

    def _rerank_expected(self, configuration: Configuration, queries: Sequence[Query]) -> bool:
        """Record the calls to rerank the queries' expected rows. Return False without a scorer."""
        settings = self.dry.config.rerankers[configuration.reranker]
        assert isinstance(settings, PassageReranker)
        ranked = runs.load_ranked(
            self.dry, configuration.name, settings.candidates, [q.query_id for q in queries]
        )
        change = self._change(configuration)
        contexts = {c["chunk_id"]: c for chunks in change.chunks.values() for c in chunks}
        read = {c.document_id for chunks in ranked.values() for c in chunks} - change.stale
        table = self.dry.contextualized_chunks(configuration.key)
        for row in table.read_rows(["chunk_id", "context"], sorted(read)):
            contexts[row["chunk_id"]] = row
        asked = []
        for query in queries:
            own = ranked[query.query_id]
            passages = (
                indexed_text(contexts.get(c.chunk_id, {}).get("context"), c.text) for c in own
            )
            documents = tuple(c.document_id for c in own)
            asked.append(RerankInput(query.query, tuple(passages), documents))
        return self._score(settings, asked)

    def _score(self, settings: PassageReranker, asked: Sequence[RerankInput]) -> bool:
        score = passage_scorer(self.dry, settings)
        if score is None:
            return False
        score(asked)
        return True

    def _change(self, configuration: Configuration) -> Change:
        step = Step("vector_index", str(configuration.vector_key))
        return self.tables[step].change if step in self.tables else Change()

    def _stand_in(self, configuration: Configuration, left: Sequence[Query]) -> bool:
        """Write the expected rows of the queries in `left`. Return False if they are unknown."""
        dry, k = self.dry, self.dry.config.retrievers[configuration.retriever].k
        expected = self._search_expected(configuration, left)
        length = self._usual_length(configuration, with_context=False)
        if length is None:
            chunks = chain.from_iterable(self._change(configuration).chunks.values())
            lengths = [len(chunk["text"]) for chunk in chunks]
            length = round(sum(lengths) / len(lengths)) if lengths else None
        ids = {query.query_id for query in left}
        made = [row for row in RUN.rows(dry, configuration.name) if row["query_id"] not in ids]
        for query in left:
            own = expected.get(query.query_id) or [None] * min(k, self._depth(configuration))
            if length is None and None in own:
                return False
            usual = _passages(query, len(own), length or 0)
            for rank, (known, text) in enumerate(zip(own, usual, strict=True), 1):
                unknown = {"chunk_id": f"#{rank}", "document_id": "", "start": 0, "end": 0}
                found = known or {**unknown, "text": text, "score": 0.0}
                made.append({**found, "query_id": query.query_id, "rank": rank})
        RUN.write(dry, pa.Table.from_pylist(made, RUN.schema), {}, configuration.name)
        return True

    def _search_expected(
        self, configuration: Configuration, queries: Sequence[Query]
    ) -> dict[str, list[Row | None]]:
        """Return each query's rows in the expected index, or {} if no index was searched yet."""
        dry, change = self.dry, self._change(configuration)
        last = last_index(dry, configuration)
        if last is None:
            return {}
        if change.stale or change.orphaned:
            if (key := str(configuration.vector_key)) not in self._expected:
                self._expected.clear()  # free the memory before the next index opens
                folder = self.folder / key
                self._expected[key] = expect_index(last, change, dry.config.lexical, folder)
            expected = self._expected[key]
        else:
            expected = ExpectedIndex(open_index(dry, pin(dry, configuration)), {})
        known = dry.embed(configuration.embedding, None, "query")

        def embed(texts: Sequence[str]) -> Embedded:
            with suppress(UnknownReplyError):
                if last.is_comparable:
                    return known(texts)
            if last.embedder is not None:
                return request(texts, last.embedder, "query")
            zeros = np.zeros((len(texts), last.dimension), np.float32)
            return Embedded(zeros, [b""] * len(texts))  # BM25 ranks alone

        found = runs.search_expected(dry, configuration, expected.index, embed, queries)
        self._reorder(configuration, found, expected.origins)
        unknown = change.stale - change.chunks.keys()
        return {
            query_id: [None if row["document_id"] in unknown else row for row in rows]
            for query_id, rows in found.items()
        }

    def _reorder(
        self,
        configuration: Configuration,
        found: Mapping[str, list[Row]],
        origins: Mapping[str, str],
    ) -> None:
        """Order the rows of each query as the reranker is expected to do."""
        count = getattr(self.dry.config.rerankers[configuration.reranker], "candidates", 0)
        scores = self._known_scores(configuration)
        for query_id, rows in found.items() if count else ():
            known = scores.get(query_id, {})
            old = {row["text"]: origins.get(row["text"], row["text"]) for row in rows}
            reorder(rows, {t: known[o] for t, o in old.items() if o in known}, count)
            if not RUN.note(self.dry, configuration.name):
                rows[:2] = rows[1::-1]  # two configurations seldom have the same order

    def _known_scores(self, configuration: Configuration) -> dict[str, dict[str, float]]:
        """Return the scores of the last runs by query and text. The own run has precedence."""
        config, reranker = self.dry.config, configuration.reranker
        count = getattr(config.rerankers[reranker], "candidates", 0)
        same = [c.name for c in config.all_configurations.values() if c.reranker == reranker]
        same.sort(key=lambda name: name == configuration.name)
        scores: dict[str, dict[str, float]] = {}
        for row in chain.from_iterable(RUN.rows(self.dry.real, name) for name in same):
            if row["rank"] <= count:
                scores.setdefault(row["query_id"], {})[row["text"]] = row["score"]
        return scores

    def _depth(self, configuration: Configuration) -> int:
        """Return the maximum number of a query's passages that a model reads."""
        evaluation = self.dry.config.evaluation
        passages = evaluation.judge.passages if evaluation.judge else 0
        candidates = getattr(self.dry.config.rerankers[configuration.reranker], "candidates", 0)
        contexts = evaluation.answers.contexts, evaluation.context.contexts
        return max(passages, candidates, *contexts)

    def _stand_in_answers(self, configuration: Configuration) -> None:
        made = load_answers(self.dry, configuration.name)
        answers = [
            made.get(query.query_id) or Answer(f"{query.query_id} {_USUAL_ANSWER}", answered=True)
            for query in self.queries
        ]
        source = ANSWERS.made_from(self.dry, configuration.name)
        save_answers(self.dry, configuration.name, source, self.queries, answers, CallCounts())

    def _usual_length(self, configuration: Configuration, *, with_context: bool) -> int | None:
        """Return the mean length of the current chunks in characters, or None without chunks."""
        import pyarrow.compute as pc

        tables = [(self.dry.chunks(configuration.key), ["text"])]
        if with_context:
            contexts = self.dry.contextualized_chunks(configuration.key)
            tables.insert(0, (contexts, ["context", "text"]))
        for table, columns in tables:
            rows = characters = 0
            for batch in table.read(columns):
                rows += batch.num_rows
                lengths = (pc.sum(pc.utf8_length(batch.column(name))) for name in columns)
                characters += sum(length.as_py() or 0 for length in lengths)
            if rows:
                return -(-characters // rows)
        return None


def keep_queries(dry: DryWorkspace, documents: Plan) -> None:
    """Save the run's queries in memory. They have no gold spans while documents are not loaded."""
    if documents.stale:
        path = dry.config.queries_path
        records = read_queries(path) if path else []
        queries = [
            Query(
                record.query_id,
                record.query,
                entities={str(kind): groups for kind, groups in record.entities.items()},
            )
            for record in records
        ]
        save_queries(dry, queries_digest(dry), queries, [], len(records))
    elif documents.orphaned or not queries_are_current(dry):
        dry.dry_table("documents").hold(documents.orphaned, ())
        update_queries(dry)


def _passages(query: Query, count: int, length: int) -> tuple[str, ...]:
    """Return `count` distinct passages of `length` characters. Each query has other passages."""
    return tuple(f"{query.query_id} {place} ".ljust(length, "x") for place in range(count))
