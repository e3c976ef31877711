"""Find the calls of searching, reranking, answering and judging by dry runs of these steps.

The prompts are those of the real steps. A search needs an index and vectors. If one is missing, the
configuration's last run replaces the search. Without a last run, every query gets as many chunks of
the mean length as the search may return. The estimate is then an upper bound.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from rag_pipeline.answering import NEUTRAL_QUERIES
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import USUAL_OUTPUT
from rag_pipeline.config import Configuration, PassageReranker
from rag_pipeline.config.rerankers import RerankInput
from rag_pipeline.datamodels import Answer, Query
from rag_pipeline.errors import UnknownReplyError
from rag_pipeline.evaluation import runs
from rag_pipeline.evaluation.answers import load_answers, save_answers
from rag_pipeline.evaluation.results import ANSWERS, RUN
from rag_pipeline.indexing import Plan
from rag_pipeline.loading.queries import read_queries
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
from rag_pipeline.search.reranking import passage_scorer
from rag_pipeline.search.retrieval import parse_query

_USUAL_ANSWER = "x" * (4 * USUAL_OUTPUT)


@dataclass(slots=True)
class DryQueries:
    """A dry run of the steps about queries, one step after the other."""

    dry: DryWorkspace
    chosen: Collection[Step]
    """The steps of the plan."""
    queries: Sequence[Query]
    estimated: set[Step] = field(default_factory=set)
    """Steps whose dry results differ from those of the run."""
    unknown: set[Step] = field(default_factory=set)
    """Steps whose results are unknown."""

    def search(self, step: Step, index_stays: bool) -> tuple[DryResult, DryResult | None]:
        """Search with every query, and return the calls of the embedding and of the reranker.

        The second result is None unless the reranker is paid or uses prompts. `index_stays` tells
        whether the run searches the current indexes. If some vectors are missing, queries with
        known vectors are searched only if a model reads their results.
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
                runs.update_run(dry, configuration)
                left = []
            else:
                embed = dry.embed(configuration.embedding, input_type="query")
                embed([query.query for query in self.queries])
        found = index_stays and not left
        if index_stays and left and is_read:
            left = self._search_embedded(configuration)
        # A retriever may add words to a query, or remove the name of a document that its index
        # knows. Otherwise the texts to embed are known before the run.
        retriever = config.retrievers[configuration.retriever]
        certain = not retriever.adds_queries and (index_stays or not retriever.splits_query)
        searching = DryResult(exact=found or certain)
        searching.calls = dict(dry.cache.missing.get("embedding", {}))
        scoring_known = found or not counts or self._rerank_usual(configuration, left)
        scores = {**dry.cache.missing.get("chat", {}), **dry.cache.missing.get("rerank", {})}
        if not found or scores:
            self.estimated.add(step)
        if not found and is_read and not self._stand_in(configuration):
            self.unknown.add(step)
        scoring = DryResult(calls=scores, calls_known=scoring_known, exact=found)
        return searching, scoring if counts else None

    def _search_embedded(self, configuration: Configuration) -> Sequence[Query]:
        """Search with the queries that have vectors, and return the queries left to search."""
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
        """Answer every query, or judge its contexts or answer, and return the calls."""
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
        """Return the most calls of the second search that extractive answers make."""
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
        """Record the reranking of passages of the mean length. Return False if it is unknown."""
        settings = self.dry.config.rerankers[configuration.reranker]
        score = passage_scorer(self.dry, settings)
        length = self._usual_length(configuration, with_context=True)
        if not isinstance(settings, PassageReranker) or score is None or length is None:
            return False
        score([RerankInput(q.query, _passages(q, settings.candidates, length)) for q in queries])
        return True

    def _stand_in(self, configuration: Configuration) -> bool:
        """Give every query the chunks of the last run, or else chunks of the mean length.

        Return False if the mean length is unknown.
        """
        rows = RUN.read(self.dry, configuration.name)
        if rows is None:
            rows = RUN.schema.empty_table()
        found = set(rows.column("query_id").to_pylist())
        new = [query for query in self.queries if query.query_id not in found]
        if new:
            length = self._usual_length(configuration, with_context=False)
            if length is None:
                return False
            made = [
                {"query_id": q.query_id, "rank": rank, "chunk_id": f"#{rank}", "document_id": "",
                 "start": 0, "end": 0, "score": 0.0, "text": text}
                for q in new
                for rank, text in enumerate(_passages(q, self._depth, length), 1)
            ]  # fmt: skip
            rows = pa.concat_tables(
                [rows.select(RUN.schema.names).cast(RUN.schema),
                 pa.Table.from_pylist(made, RUN.schema)]
            )  # fmt: skip
            RUN.write(self.dry, rows, RUN.note(self.dry, configuration.name), configuration.name)
        return True

    @property
    def _depth(self) -> int:
        """Return the maximum number of a query's passages that are judged or answered from."""
        evaluation = self.dry.config.evaluation
        passages = evaluation.judge.passages if evaluation.judge else 0
        return max(passages, evaluation.answers.contexts, evaluation.context.contexts)

    def _stand_in_answers(self, configuration: Configuration) -> None:
        made = load_answers(self.dry, configuration.name)
        answers = [
            made.get(query.query_id) or Answer(f"{query.query_id} {_USUAL_ANSWER}", answered=True)
            for query in self.queries
        ]
        source = ANSWERS.made_from(self.dry, configuration.name)
        counts = CallCounts()
        save_answers(self.dry, configuration.name, source, self.queries, answers, counts)

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
    """Save the run's queries in memory. They lack gold spans if documents are not loaded."""
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
        runs.save_queries(dry, runs.queries_digest(dry), queries, [], len(records))
    elif documents.orphaned or not runs.queries_are_current(dry):
        dry.dry_table("documents").hold(documents.orphaned, ())
        runs.update_queries(dry)


def _passages(query: Query, count: int, length: int) -> tuple[str, ...]:
    """Return `count` distinct passages of `length` characters. No two queries share a passage."""
    return tuple(f"{query.query_id} {place} ".ljust(length, "x") for place in range(count))
