from functools import partial
from typing import Any

import pytest

from rag_pipeline.config import Key, load_config
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.registry import ASSETS, asset_of, configurations_of
from rag_pipeline_tests.testing.corpora import rule, write_corpus


def test_the_assets_are_called_what_users_know_them_by():
    named = (
        "documents queries chunks contextualized_chunks lexical_index vector_index retrieval_run "
        "relevance_labels answer_presence answers entity_scores context_scores leaderboard release "
        "assistant_prompts"
    ).split()
    assert list(ASSETS) == named


@pytest.mark.parametrize("asset", ASSETS.values(), ids=list(ASSETS))
def test_a_row_reads_earlier_rows_and_says_how_it_is_planned_and_made(asset: Any) -> None:
    earlier = list(ASSETS)[: list(ASSETS).index(asset.name)]
    assert set(asset.reads) <= set(earlier)
    assert asset.description.endswith(".")
    if asset.on_demand:
        return
    assert (asset.update is None) != (asset.build is None)
    assert (asset.plan is None) != (asset.is_current is None)
    assert not asset.open_partition or (asset.table and len(asset.reads) == 1)
    assert not asset.has_blocking_check or asset.table or asset.state
    if asset.made_by:
        assert ASSETS[asset.made_by].partitioned_by == asset.partitioned_by


def test_an_asset_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match=r"no asset 'chunk'; there are: documents, queries"):
        asset_of("chunk")


def test_what_reads_a_partition_is_told_by_its_asset_not_by_its_name(tmp_path):
    attributes = {
        "chunkings": {
            "plain": {"method": "recursive", "max_characters": 150},
            "other": {"method": "markdown"},
        },
        "configurations": [
            rule("plain", "other"),
            rule("short", "plain"),
        ],
    }
    config = load_config(write_corpus(tmp_path, **attributes))
    readers = partial(configurations_of, config)
    assert readers("chunks", "plain") == ("short",)
    assert readers("answers", "plain") == ("plain",)
    assert readers("chunks", "gone") == ()
    assert readers("documents", "") == readers("search", "") == ("plain", "short")


def test_a_step_has_the_key_of_its_configuration(config):
    key = Step("answers", "default").key(config)
    assert (key, key.at("embedding")) == ("default", "recursive_150.structural.minilm")
    assert Step("documents").key(config) == Key()
