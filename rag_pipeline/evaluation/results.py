"""Define the paths, columns and inputs of the evaluation's Parquet files.

Each file has rows and a note. The note's `digest` identifies the state of the file.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import ChatSettings, CorpusConfig, Evaluation, Settings, fingerprint
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.store.states import read_once
from rag_pipeline.workspace import Workspace

_FOLDER = "evaluation"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A kind of evaluation file, such as the runs. `name` is the name of its asset.

    Each configuration has a file of the kind, or the whole corpus has one.
    """

    name: str
    schema: pa.Schema
    measures: bool = False
    """Whether a file also has columns of metrics, which are not in `schema`."""

    def file(self, configuration: str = "") -> str:
        """Return the path in the store of a configuration's file. "" means the whole corpus."""
        return "/".join(part for part in (_FOLDER, self.name, configuration) if part) + ".parquet"

    def read(self, workspace: Workspace, configuration: str = "") -> pa.Table | None:
        """Return the rows, or None if the file was never written."""
        return workspace.store.read_parquet(self.file(configuration))

    def rows(self, workspace: Workspace, configuration: str = "") -> list[dict[str, Any]]:
        """Return the rows as dictionaries, or [] if the file was never written."""
        table = self.read(workspace, configuration)
        return [] if table is None else list(table.to_pylist())

    def note(self, workspace: Workspace, configuration: str = "") -> dict[str, Any]:
        """Return the note, or {} if the file was never written."""
        return workspace.store.read_note(self.file(configuration))

    def notes(self, workspace: Workspace) -> Iterator[dict[str, Any]]:
        """Yield the notes of all configurations, including removed configurations."""
        folder = f"{_FOLDER}/{self.name}"
        for name in workspace.store.list(folder):
            yield workspace.store.read_note(f"{folder}/{name}")

    def digest(self, workspace: Workspace, configuration: str = "") -> str | None:
        """Return the note's digest, or None if the file was never written."""
        return self.note(workspace, configuration).get("digest")

    def table(self, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
        """Return a table with these columns. Columns outside `schema` have numbers."""
        own = {field.name: field.type for field in self.schema}
        types = ((name, own.get(name, pa.float64())) for name in columns)
        return pa.table(dict(columns), schema=pa.schema(types))

    def write(
        self,
        workspace: Workspace,
        table: pa.Table,
        note: Mapping[str, Any],
        configuration: str = "",
    ) -> None:
        """Write rows and note together. Raise ValueError if the columns do not fit `schema`."""
        is_metric = pa.types.is_float64 if self.measures else lambda kind: False
        own = [field for field in table.schema if not is_metric(field.type)]
        if sorted(own, key=str) != sorted(self.schema, key=str):
            raise ValueError(f"{self.name}: columns {own}, not {list(self.schema)}")
        workspace.store.write_parquet(self.file(configuration), table, note)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedResults(Results):
    """A kind of file with model judgements. A run repeats failed judgements.

    The note's `made_from` is a hash of the inputs. Its `digest` is a hash of inputs and rows.
    """

    settings: Callable[[Evaluation], Settings]
    """The judge's section of the corpus file."""
    reads: tuple[Results, ...]
    """The input files of the same configuration."""
    reads_queries: bool = False
    """Whether the queries are also an input."""

    def chats(self, config: CorpusConfig) -> list[ChatSettings]:
        """Return the chat models that make the judgements."""
        judges = [self.settings(config.evaluation)]
        if self is CONTEXT_SCORES:
            judges += config.evaluation.scores
        asked = (model for judge in judges for model in judge.models_used(config))
        return [model for model in asked if isinstance(model, ChatSettings)]

    def made_from(self, workspace: Workspace, configuration: str) -> str:
        """Hash the current inputs of a configuration's file."""
        settings = (workspace.store.address(self.name), "settings")
        parts = [*read_once(settings, lambda: self._settings(workspace.config))]
        return fingerprint(*parts, *self._inputs(workspace, configuration))

    def _inputs(self, workspace: Workspace, configuration: str) -> list[str | None]:
        own = [before.digest(workspace, configuration) for before in self.reads]
        return own + [QUERIES.digest(workspace)] * self.reads_queries

    def has_new_inputs(self, workspace: Workspace, configuration: str) -> bool:
        """Return whether the inputs of a file have changed since the file was made."""
        inputs = self._inputs(workspace, configuration)
        return bool(self.note(workspace, configuration).get("inputs", inputs) != inputs)

    def _settings(self, config: CorpusConfig) -> list[Any]:
        settings = self.settings(config.evaluation)
        parts: list[Any] = [self.name, settings, *(settings.made_from(config) or [None])]
        if self is CONTEXT_SCORES:
            for score in config.evaluation.scores:
                own = score.metrics if isinstance(score, AnswerScore) else ()
                metrics = [[m.name, m.version] for m in own]
                parts += [score, metrics, *score.models_used(config)]
        return parts

    def is_current(self, workspace: Workspace, configuration: str) -> bool:
        """Return whether a file is made from its current inputs and lacks no judgement."""
        return self._missing(workspace, configuration) == 0

    def is_incomplete(self, workspace: Workspace, configuration: str) -> bool:
        """Return whether a file is made from its current inputs, but lacks failed judgements."""
        return bool(self._missing(workspace, configuration))

    def _missing(self, workspace: Workspace, configuration: str) -> int | None:
        """Return the number of missing judgements, or None if the inputs differ."""
        note = self.note(workspace, configuration)
        is_of_inputs = note and note.get("made_from") == self.made_from(workspace, configuration)
        return int(note["missing"]) if is_of_inputs else None

    def keep(
        self,
        workspace: Workspace,
        configuration: str,
        source: str,
        columns: Mapping[str, Sequence[Any]],
        counts: CallCounts,
        outcomes: Iterable[object],
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write a file, and return its note with the values of `more`.

        `source` is the value of `made_from`. The note has the first 20 distinct failures among the
        `outcomes` of the calls.
        """
        table = self.table(columns)
        content = hashlib.sha256(json.dumps(table.to_pylist(), sort_keys=True).encode()).hexdigest()
        digest = fingerprint(self.name, source, content)
        errors = dict.fromkeys(str(one) for one in outcomes if isinstance(one, ProviderError))
        read = self._inputs(workspace, configuration)
        told = {"errors": list(errors)[:20], "calls": asdict(counts), "inputs": read}
        note = {"made_from": source, "digest": digest, **told, **more}
        self.write(workspace, table, note, configuration)
        return note


def _by_query(**columns: pa.DataType) -> pa.Schema:
    return pa.schema({"query_id": pa.string(), **columns})


_FACT = pa.struct({"type": pa.string(), "fact": pa.string(), "found": pa.bool_()})
_CONTEXT = pa.struct({"level": pa.string(), "used": pa.bool_(), "reason": pa.string()})

QUERIES = Results(name="queries", schema=_by_query(query=pa.string(), record=pa.string()))
RUN = Results(
    name="retrieval_run",
    schema=_by_query(
        rank=pa.int32(),
        chunk_id=pa.string(),
        document_id=pa.string(),
        start=pa.int64(),
        end=pa.int64(),
        score=pa.float64(),
        text=pa.string(),
    ),
)
LABELS = JudgedResults(
    name="relevance_labels",
    schema=_by_query(chunk_id=pa.string(), label=pa.bool_(), gold=pa.bool_(), error=pa.string()),
    settings=lambda evaluation: evaluation.relevance,
    reads=(RUN,),
)
PRESENCE = Results(name="answer_presence", schema=_by_query(), measures=True)
ANSWERS = JudgedResults(
    name="answers",
    schema=_by_query(answer=pa.string(), error=pa.string()),
    settings=lambda evaluation: evaluation.answers,
    reads=(RUN,),
)
ENTITY_SCORES = JudgedResults(
    name="entity_scores",
    schema=_by_query(facts=pa.list_(_FACT)),
    measures=True,
    settings=lambda evaluation: evaluation.entities,
    reads=(ANSWERS,),
    reads_queries=True,
)
CONTEXT_SCORES = JudgedResults(
    name="context_scores",
    schema=_by_query(
        contexts=pa.list_(_CONTEXT), missing=pa.list_(pa.string()), overall=pa.string()
    ),
    measures=True,
    settings=lambda evaluation: evaluation.context,
    reads=(RUN, ANSWERS),
    reads_queries=True,
)

SCORES: tuple[Results, ...] = (PRESENCE, ENTITY_SCORES, CONTEXT_SCORES)
JUDGED = {results.name: results for results in (LABELS, ANSWERS, ENTITY_SCORES, CONTEXT_SCORES)}


def read_as(kind: type[T], value: Any) -> T:
    """Return a JSON value as a data class. Raise pydantic's ValidationError if it is invalid."""
    read: T = _adapter(kind).validate_python(value)  # type: ignore[arg-type]  # mypy: no hash
    return read


_adapter = cache(TypeAdapter)  # A new adapter takes a millisecond.
