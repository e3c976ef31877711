import copy
import json
import pickle

import pytest

from rag_pipeline.config import Key
from rag_pipeline.config.configurations import Configuration

OWN = Configuration(
    name="default",
    chunking="fixed",
    contextualizer="llm",
    embedding="minilm",
    retriever="hybrid",
    reranker="none",
).key


@pytest.mark.parametrize(
    ("level", "partition"),
    [
        (None, ""),
        ("chunking", "fixed"),
        ("contextualizer", "fixed.llm"),
        ("embedding", "fixed.llm.minilm"),
        ("configuration", "default"),
    ],
)
def test_a_key_is_the_partition_of_the_asset_at_its_level(level, partition):
    assert OWN.at(level) == partition
    assert str(OWN.at(level)) == partition
    assert OWN.at(level).at(level) == partition


@pytest.mark.parametrize("partition", ["", "a", "a.b", "a.b.c"])
def test_a_partition_of_variants_is_parsed_into_the_key_that_it_came_from(partition):
    key = Key.parse(partition)
    assert key == partition
    assert ".".join(key.variants) == partition
    assert Key.parse(key) is key


@pytest.mark.parametrize("partition", ["a.b.c.d", "a..b", ".", "a.b.c.d.e"])
def test_what_is_no_partition_of_variants_is_refused(partition):
    with pytest.raises(ValueError, match="is not chunking"):
        Key.parse(partition)


def test_a_key_of_an_earlier_level_has_no_later_part():
    with pytest.raises(ValueError, match=r"'a\.b' names no embedding"):
        Key("a", "b").at("embedding")
    with pytest.raises(ValueError, match="names no configuration"):
        Key("a", "b", "c").at("configuration")


def test_a_key_travels_as_its_string_and_keeps_its_parts_in_python():
    assert json.loads(json.dumps({"key": OWN})) == {"key": "default"}
    for other in (copy.deepcopy(OWN), pickle.loads(pickle.dumps(OWN))):
        assert (other, other.embedding) == ("default", "minilm")
    assert {"default": 1}[OWN] == 1
