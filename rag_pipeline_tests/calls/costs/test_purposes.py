from functools import partial
from pathlib import Path

import pytest

from rag_pipeline.calls import Database
from rag_pipeline.calls.costs import Ledger, attributed, charging, record, totals_by
from rag_pipeline.config import CorpusConfig
from rag_pipeline.pipeline.registry import configurations_of


def test_calls_add_up_by_asset_model_day_and_by_every_configuration_that_reads_them(
    tmp_path: Path, config: CorpusConfig
):
    ledger = Ledger(Database(tmp_path / "calls.sqlite"), "tiny")
    million = 1_000_000
    with charging(ledger):
        with attributed("chunks", "recursive_150", ["default"]):
            record("embedding", "openai", "text-embedding-3-small", input_tokens=million)
        with attributed("vector_index", "recursive_150.none.minilm", ["plain", "gone"]):
            record("embedding", "openai", "text-embedding-3-small", input_tokens=10 * million)
        record("rerank", "voyage", "rerank-2.5", input_tokens=million)
    charges = list(ledger.charges())
    readers = partial(configurations_of, config)
    by_asset = totals_by(charges, "asset", readers)
    assert {name: round(t.usd, 6) for name, t in by_asset.items()} == {
        "chunks recursive_150": 0.02,
        "vector_index recursive_150.none.minilm": 0.2,
        "-": 0.05,
    }
    assert list(totals_by(charges, "model", readers)) == [
        "openai text-embedding-3-small",
        "voyage rerank-2.5",
    ]
    assert list(totals_by(charges, "day", readers)) == [charges[0].time[:10]]
    # `plain` reads the chunks too, though it was not there when they were paid for.
    by_configuration = totals_by(charges, "configuration", readers)
    assert {name: round(t.usd, 6) for name, t in by_configuration.items()} == {
        "default": 0.02,
        "plain": 0.22,
        "gone": 0.2,
        "-": 0.05,
    }
    assert by_configuration["plain"].input_tokens == 11 * million
    assert sum(t.usd for t in by_asset.values()) == pytest.approx(ledger.spent())
