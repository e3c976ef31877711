"""Use a chat model to extract entities of seven types from a text."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from rag_pipeline.config import CorpusFile, EntityExtractor, Models
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import Entity
from rag_pipeline.errors import ProviderError
from rag_pipeline.loading.queries import ENTITY_TYPES
from rag_pipeline.models.chat import Reply
from rag_pipeline.models.prompts import object_schema, template_of

_PROMPT = template_of(__file__)
_CITATION = re.compile(r"\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\]")
ENTITIES_SCHEMA = object_schema(
    {kind: {"type": "array", "items": {"type": "string"}} for kind in ENTITY_TYPES}
)


class ChatEntities(EntityExtractor):
    """An extractor that asks a chat model for the entities of an answer without citation marks.

    A `template` replaces the packaged prompt. It must contain the placeholder `{answer}`. The
    answer's text stands between delimiters.
    """

    code_version = 4
    extractor: Literal["llm"]
    chat: ChatName
    template: Annotated[str | None, AfterValidator(_PROMPT.check)] = None

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model and the prompt."""
        return [*super().made_from(config), _PROMPT.using(self.template).version]

    def extract(self, texts: Sequence[str], models: Models) -> list[list[Entity] | ProviderError]:
        """Return each text's entities, or the error of its call. Drop entities not in the text."""
        texts = [_CITATION.sub("", text) for text in texts]
        asked = [n for n, text in enumerate(texts) if text.strip()]
        template = _PROMPT.using(self.template)
        prompts = [template.prompt(answer=texts[n], schema=ENTITIES_SCHEMA) for n in asked]
        found: list[list[Entity] | ProviderError] = [[] for _ in texts]
        for n, reply in zip(asked, models.ask(prompts, self.chat), strict=True):
            found[n] = _read(reply, texts[n]) if isinstance(reply, Reply) else reply
        return found


def _read(reply: Reply, text: str) -> list[Entity]:
    held = _flat(text)
    return list(
        dict.fromkeys(
            Entity(kind, entity.strip())
            for kind in ENTITY_TYPES
            for entity in reply.data[kind]
            if entity.strip() and _flat(entity) in held
        )
    )


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
