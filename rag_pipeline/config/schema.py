"""Make the JSON Schema of corpus files for editors, with the settings of plugins."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.parsing import COMPONENT_TYPE


def corpus_schema() -> dict[str, Any]:
    """Return the schema of a whole corpus file: `type` and `attributes`.

    Unlike `load_config`, the schema does not check that named variants exist.
    """
    attributes = CorpusConfig.model_json_schema()
    definitions = attributes.pop("$defs")
    for sections in attributes["properties"].values():
        if "patternProperties" in sections:
            sections["additionalProperties"] = False  # refuse names that do not match the pattern
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "A corpus of rag_pipeline",
        "type": "object",
        "required": ["type", "attributes"],
        "properties": {"type": {"const": COMPONENT_TYPE}, "attributes": attributes},
        "$defs": definitions,
    }
