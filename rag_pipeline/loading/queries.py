"""Read `queries.jsonl`, validate every line, and find gold spans in their documents."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from rag_pipeline.datamodels import GoldSpan, Query
from rag_pipeline.errors import InputError, count_shown
from rag_pipeline.loading.parsing import read_lines
from rag_pipeline.loading.quotes import Searchable

EntityType = Literal[
    "TIME", "MONEY", "LOCATION", "ORGANIZATION", "CONDITION", "ACTION", "PERCENTAGE"
]
ENTITY_TYPES: tuple[str, ...] = get_args(EntityType)
"""The types of facts that the evaluation looks for in an answer."""

UNANSWERABLE = "unanswerable"
"""The tag of a query that no document answers."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_MISTAKES = 8
_MAX_SHOWN = 80
_MAX_OFFER = 400
_WEAKEST_ID = 0.75


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("expected text, not only white space")
    if _SURROGATE.search(value):
        raise ValueError("expected valid Unicode, not a lone surrogate")
    return value


def _not_empty(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("expected at least one variant")
    return value


def _as_id(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_groups(value: Any) -> Any:
    """Replace each plain string in a list of groups by a group with only this string."""
    if not isinstance(value, list):
        return value
    return [[item] if isinstance(item, str) else item for item in value]


Text = Annotated[StrictStr, AfterValidator(_not_blank)]
Identifier = Annotated[Text, BeforeValidator(_as_id)]
Wordings = Annotated[tuple[Text, ...], AfterValidator(_not_empty)]
VariantGroups = Annotated[tuple[Wordings, ...], BeforeValidator(_as_groups)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SpanRecord(_Record):
    """A gold span, given by offsets, by a quote, or by both: the quote nearest to the offsets.

    An edit of the document moves a quote, or removes it. Without offsets and quote, the whole
    document is gold. `grade` (from 1) is the relevance of the span.
    """

    document_id: Identifier
    start: StrictInt | None = Field(default=None, ge=0)
    end: StrictInt | None = Field(default=None, gt=0)
    quote: Text | None = None
    grade: StrictInt = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _is_located(self) -> "SpanRecord":
        if (self.start is None) != (self.end is None):
            raise ValueError("expected `start` and `end` together")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"expected start < end, not {self.start} and {self.end}")
        return self


class QueryRecord(_Record):
    """One line of `queries.jsonl`. `metadata` holds the user's own fields."""

    query_id: Identifier
    query: Text
    gold_spans: tuple[SpanRecord, ...] = ()
    answer: Text | None = None
    entities: dict[EntityType, VariantGroups] = {}
    critical_types: tuple[EntityType, ...] = ()
    tags: tuple[Text, ...] = ()
    group: Identifier | None = None
    synthetic: StrictBool = False
    metadata: dict[str, Any] = {}


def read_queries(path: Path) -> list[QueryRecord]:
    """Read and validate a JSON Lines file of queries.

    Raise InputError with a line `file:line: field: value: expected` per mistake, at most eight.
    """
    records: list[QueryRecord] = []
    first_lines: dict[str, int] = {}
    mistakes: list[str] = []
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        try:
            record = QueryRecord.model_validate(json.loads(line.decode()))
        except json.JSONDecodeError as error:
            mistakes.append(f"{where}: not valid JSON: {error.msg} (column {error.colno})")
        except ValidationError as error:
            mistakes += [f"{where}: {_explain(e)}" for e in error.errors(include_url=False)]
        except UnicodeDecodeError as error:
            wrong = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            mistakes.append(f"{where}: not UTF-8 text: {wrong}; save the file as UTF-8")
        except RecursionError:
            mistakes.append(f"{where}: unusable JSON: nested too deeply")
        except ValueError as error:
            mistakes.append(f"{where}: unusable JSON: {error}")
        else:
            query_id, first = record.query_id, first_lines.setdefault(record.query_id, number)
            if first != number:
                taken = f"line {first} already has it; expected another id"
                mistakes.append(f"{where}: query_id: {_shown(query_id)}: {taken}")
            records.append(record)
    if (more := len(mistakes) - (most := count_shown(mistakes, _MAX_MISTAKES))) > 0:
        mistakes = [*mistakes[:most], f"(and {more} more)"]
    if mistakes:
        raise InputError("\n".join(mistakes))
    if not records:
        raise InputError(f"{path}: it has no queries; expected one JSON object per line")
    return records


def _shown(value: Any, most: int = _MAX_SHOWN) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _explain(error: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    place = ".".join(str(step) for step in error["loc"] if step != "[key]")
    at = f"{place}: " if place else ""
    if kind == "missing":
        return f"{at}missing; expected in every {'gold span' if '.' in place else 'query'}"
    if kind == "extra_forbidden":
        model = SpanRecord if "." in place else QueryRecord
        allowed = ", ".join(model.model_fields)
        hint = "" if model is SpanRecord else "; put fields of your own under `metadata`"
        return f"{at}{_shown(error['input'])}: unknown field; expected one of: {allowed}{hint}"
    expected = {
        "literal_error": f"expected one of: {', '.join(ENTITY_TYPES)}",
        "model_type": "expected a JSON object",
        "value_error": str(context.get("error", "")),
    }.get(kind) or re.sub(r"^Input should be( a valid)?", "expected", error["msg"]).replace(
        "tuple", "list"
    ).replace("dictionary", "object")
    return f"{at}{_shown(error['input'])}: {expected}"


def resolve_queries(
    records: list[QueryRecord],
    text_of: Callable[[str], str | None],
    known: Callable[[], Iterable[str]] = tuple,
    refused: Mapping[str, str] = MappingProxyType({}),
    before: Collection[str] = (),
) -> tuple[list[Query], list[str]]:
    """Find every gold span in its document. Return the queries, and a message per unresolved span.

    Omit queries with an unresolved span, because incomplete gold would falsify metrics. `text_of`
    is called once per document, and returns its text, or None for an unknown document. `known`
    returns all document ids, from which a message suggests a similar id. `refused` maps each
    document in quarantine to the reason. `before` has the ids of documents that existed earlier.
    """
    wanted: dict[str, set[SpanRecord]] = {}
    for record in records:
        for span in record.gold_spans:
            wanted.setdefault(span.document_id, set()).add(span)
    resolved: dict[SpanRecord, GoldSpan | str | None] = {}
    for document_id, same in wanted.items():
        text = text_of(document_id)
        if text is None and (reason := refused.get(document_id)):
            told = f"{_shown(document_id)} is in quarantine: {reason}; repair it and run again"
            resolved |= dict.fromkeys(same, told)
        elif text is None:
            resolved |= dict.fromkeys(same, _unknown(document_id, known(), before))
        else:
            document = Searchable(text)
            resolved |= {span: _resolve(span, document) for span in same}
    queries: list[Query] = []
    problems: list[str] = []
    for record in records:
        found = [resolved[span] for span in record.gold_spans]
        lost = [(n, problem) for n, problem in enumerate(found) if isinstance(problem, str)]
        start = problem_of(record.query_id)
        problems += [f"{start}gold_spans.{n}: {problem}" for n, problem in lost]
        if not lost:
            spans = dict.fromkeys(one for one in found if isinstance(one, GoldSpan))
            whole = dict.fromkeys(s.document_id for s in record.gold_spans if resolved[s] is None)
            graded = sorted((s.grade, s.document_id) for s in record.gold_spans if s.grade > 1)
            other = record.model_dump(exclude={"gold_spans", "metadata"})
            other["grades"] = {document_id: grade for grade, document_id in graded}
            queries.append(Query(gold_spans=tuple(spans), gold_documents=tuple(whole), **other))
    return queries, problems


def problem_of(query_id: str) -> str:
    """Return the start of each message about a query's gold spans."""
    return f"query {query_id}: "


def _unknown(document_id: str, known: Iterable[str], before: Collection[str]) -> str:
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import extractOne

    known = list(known)
    name = PurePosixPath(document_id).name.casefold()
    in_other_folder = [i for i in known if PurePosixPath(i).name.casefold() == name]
    told = f"there is no document {_shown(document_id)}"
    if document_id in before:
        told = f"{_shown(document_id)} was deleted"
        if not in_other_folder:
            return told
    near = extractOne(
        document_id,
        in_other_folder or known,
        scorer=Indel.normalized_similarity,
        score_cutoff=0.0 if in_other_folder else _WEAKEST_ID,
    )
    meant = f"did you mean {_shown(near[0])}? If not, " if near else ""
    return f"{told}; {meant}correct document_id"


def _resolve(span: SpanRecord, document: Searchable) -> GoldSpan | str | None:
    """Return the gold span, None if the whole document is gold, or an error message."""
    name = _shown(span.document_id)
    text, quote = document.text, span.quote
    if span.start is None and quote is None:
        return None
    if span.start is None or span.end is None:
        return _resolve_quote(span.document_id, quote or "", document)
    if quote is not None and text[span.start : span.end] != quote:
        start = span.start
        if not (places := document.find(quote)):
            there = f"{span.start}-{span.end} is now {_shown(text[span.start : span.end])}"
            return f"{name} does not hold {_shown(quote)}; {there}, so the answer may have changed"
        return GoldSpan(span.document_id, *min(places, key=lambda place: abs(place[0] - start)))
    if span.end > len(text):
        outside = f"{span.start}-{span.end} lies outside {name}, which has {len(text)} characters"
        return f"{outside}; correct start and end, counted in Unicode code points"
    return GoldSpan(span.document_id, span.start, span.end)


def _resolve_quote(document_id: str, quote: str, document: Searchable) -> GoldSpan | str:
    found = document.find(quote)
    name = _shown(document_id)
    if not found:
        nearest = document.nearest(quote)
        fix = f"the most similar text is {_shown(nearest, _MAX_OFFER)}; " if nearest else ""
        return f"{name} doesn't hold the quote {_shown(quote)}; {fix}copy it from the document"
    if len(found) > 1:
        starts = [start for start, _ in found]
        places = ", ".join(map(str, starts[:5])) + (", …" if len(starts) > 5 else "")
        many = f"{name} holds the quote {_shown(quote)} {len(starts)} times (at {places})"
        return f"{many}; lengthen it, or give start and end"
    return GoldSpan(document_id, *found[0])
