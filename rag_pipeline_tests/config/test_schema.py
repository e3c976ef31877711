import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rag_pipeline.config import parse_config
from rag_pipeline.config.schema import corpus_schema
from rag_pipeline.errors import ConfigError

EVERY_VARIANT = yaml.safe_load((Path(__file__).parent / "every_variant.yaml").read_text())
SAMPLE = yaml.safe_load(Path("rag_pipeline/defs/sample/defs.yaml").read_text())


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = corpus_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("file", [EVERY_VARIANT, SAMPLE], ids=["every variant", "sample"])
def test_what_is_read_is_valid(validator, file):
    parse_config(file["attributes"])
    assert [error.message for error in validator.iter_errors(file)] == []


def changed(place: str, value: Any) -> dict[str, Any]:
    file = copy.deepcopy(EVERY_VARIANT)
    *folders, last = place.split("/")
    here = file["attributes"]
    for step in folders:
        here = here[step]
    here[last] = value
    return file


def test_adaptive_may_be_a_switch(validator):
    file = changed("retrievers/hybrid/adaptive", True)
    parse_config(file["attributes"])
    assert validator.is_valid(file)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("chunkings/fixed/tokens", "many"),
        ("chunkings/fixed/tokens", 2),
        ("chunkings/fixed/token", 20),
        ("chunkings/fixed/method", "fixd"),
        ("chunkings/a b", {"method": "recursive"}),
        ("chunkings", {}),
        ("embeddings/tokens/provider", "maxilm"),
        ("chats/mini/temperature", 3),
        ("retrievers/hybrid/fusion", "sum"),
        ("configurations", []),
        ("budget", 3),
    ],
)
def test_what_is_refused_is_invalid(validator, place, value):
    file = changed(place, value)
    with pytest.raises(ConfigError):
        parse_config(file["attributes"])
    errors = list(validator.iter_errors(file))
    assert errors
    # The editor marks the place, not the whole file.
    assert all("attributes" in error.absolute_path for error in errors)
