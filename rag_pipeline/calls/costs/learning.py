"""Estimate the tokens and reply lengths of coming calls from the calls charged so far.

Few tokenizers of hosted models are available, but each reply names the tokens of its request. The
sums of estimated and charged tokens give a factor for each model and alphabet. The alphabet stands
for the language. The charges also give the usual length of the replies for an asset.
"""

from typing import NamedTuple

from sqlalchemy import Connection, func, select

from rag_pipeline.calls.costs.prices import ChargedTokens
from rag_pipeline.calls.costs.purposes import measured
from rag_pipeline.calls.costs.tokens import Learned
from rag_pipeline.calls.database import Database
from rag_pipeline.calls.schema import charges, token_counts

_LEAST_CALLS = 5
_LEAST_TOKENS = 200
_MOST_FACTOR = 8.0
"""A factor above this or below its inverse is ignored: the server counts something else."""


class Calls(NamedTuple):
    """The calls of one kind from one corpus to one model."""

    corpus: str
    provider: str
    model: str
    kind: str


def learn(database: Database, connection: Connection, calls: Calls, tokens: ChargedTokens) -> None:
    """Add the tokens of a call to the sums, if its texts are measured (see `measuring`)."""
    estimate = measured.get()
    if estimate is None or not estimate.tokens or not tokens.input:
        return
    insert = database.insert(token_counts)
    sums = {n: token_counts.c[n] + insert.excluded[n] for n in ("calls", "estimated", "input")}
    upsert = insert.on_conflict_do_update(index_elements=[*Calls._fields, "alphabet"], set_=sums)
    counts = {"calls": 1, "estimated": estimate.tokens, "input": tokens.input}
    connection.execute(upsert, {**calls._asdict(), "alphabet": estimate.alphabet, **counts})


def learned(database: Database, calls: Calls, asset: str) -> Learned:
    """Return the token factors by alphabet, and the mean length in tokens of an asset's replies.

    Both are learned from at least five calls, and a factor also from at least 200 estimated tokens.
    After fewer calls, the factor is missing and the length is None.
    """
    counts = select(token_counts).where(
        *(token_counts.c[name] == value for name, value in calls._asdict().items()),
        token_counts.c.calls >= _LEAST_CALLS,
        token_counts.c.estimated >= _LEAST_TOKENS,
    )
    found = {row.alphabet: row.input / row.estimated for row in database.read(counts)}
    factors = {name: f for name, f in found.items() if 1 / _MOST_FACTOR <= f <= _MOST_FACTOR}
    replies = select(func.count(), func.avg(charges.c.output)).where(
        *(charges.c[name] == value for name, value in calls._asdict().items()),
        charges.c.asset == asset,
    )
    ((count, output),) = database.read(replies)
    return Learned(factors, round(output) if count >= _LEAST_CALLS and output else None)
