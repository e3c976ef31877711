"""What charged calls tell of the next ones: tokens by model and alphabet, and lengths of replies.

Few hosted models' tokenizers are at hand, but each reply says how many tokens its request had.
The sums of estimated and charged tokens give a factor for each model and alphabet, a proxy of
language; the ledger's charges give the length of the replies that an asset asks for.
"""

import sqlite3

from rag_pipeline.calls.costs.prices import ChargedTokens
from rag_pipeline.calls.costs.purposes import measured
from rag_pipeline.calls.costs.tokens import Learned

TABLE = """
CREATE TABLE IF NOT EXISTS token_counts (
  corpus TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, kind TEXT NOT NULL,
  alphabet TEXT NOT NULL,
  calls INTEGER NOT NULL, estimated INTEGER NOT NULL, input INTEGER NOT NULL,
  PRIMARY KEY (corpus, provider, model, kind, alphabet)
)
"""
_LEAST_CALLS = 5
_LEAST_TOKENS = 200
_MOST_FACTOR = 8.0
"""A factor beyond this, or below its inverse, tells of a server that counts something else."""

Of = tuple[str, str, str, str]
"""Corpus, provider, model and kind of calls."""


def learn(connection: sqlite3.Connection, of: Of, tokens: ChargedTokens) -> None:
    """Add what a call of measured texts used to the sums; see `measuring`."""
    estimate = measured.get()
    if estimate is None or not estimate.tokens or not tokens.input:
        return
    connection.execute(
        "INSERT INTO token_counts VALUES (?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET "
        "calls = calls + 1, estimated = estimated + excluded.estimated, "
        "input = input + excluded.input",
        (*of, estimate.alphabet, estimate.tokens, tokens.input),
    )


def learned(connection: sqlite3.Connection, of: Of, asset: str) -> Learned:
    """Return the factors by alphabet, and the mean output of an asset's calls, where known."""
    counts = connection.execute(
        "SELECT alphabet, 1.0 * input / estimated FROM token_counts "
        "WHERE (corpus, provider, model, kind) = (?, ?, ?, ?) AND calls >= ? AND estimated >= ?",
        (*of, _LEAST_CALLS, _LEAST_TOKENS),
    )
    factors = {name: f for name, f in counts if 1 / _MOST_FACTOR <= f <= _MOST_FACTOR}
    calls, output = connection.execute(
        "SELECT count(*), avg(output) FROM charges "
        "WHERE (corpus, provider, model, kind) = (?, ?, ?, ?) AND asset = ?",
        (*of, asset),
    ).fetchone()
    return Learned(factors, round(output) if calls >= _LEAST_CALLS and output else None)
