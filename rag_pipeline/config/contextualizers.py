"""The settings of what writes a chunk's context: nothing, the document's structure, a model."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rag_pipeline.config.settings import Settings


class NoContext(Settings):
    """Index chunks as they are."""

    method: Literal["none"]


class StructuralContext(Settings):
    """A free, deterministic context from the document's own structure."""

    code_version = 2
    method: Literal["structural"]
    max_characters: int = Field(default=400, ge=16)


CONTEXT_TEMPLATE = """\
<document>
{document}
</document>

A passage of this document will be indexed for search by itself, cut off from what stands around \
it. Write one or two sentences to be put before it: which document it is from, what it is about \
there, and the names, dates or sections that its words refer back to. Answer with these sentences \
alone.

<passage>
{chunk}
</passage>
"""


class LLMContext(Settings):
    """A context that the chat model `chat` writes, having read the whole document.

    `template` holds `{document}`, and after it `{chunk}`. With `structural`, the free structural
    context stands before what the model says.
    """

    method: Literal["llm"]
    chat: str
    template: str = CONTEXT_TEMPLATE
    max_characters: int = Field(default=600, ge=16)
    structural: bool = False

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return what stands before the document, between document and chunk, and after it."""
        before, _, rest = self.template.partition("{document}")
        return before, *rest.split("{chunk}")  # type: ignore[return-value]

    @model_validator(mode="after")
    def _template_has_both(self) -> "LLMContext":
        places = [self.template.count("{document}"), self.template.count("{chunk}")]
        if places != [1, 1] or "{chunk}" not in self.template.partition("{document}")[2]:
            raise ValueError(
                "template must hold {document} once and after it {chunk} once: a prompt that "
                "begins with the document is served from the provider's cache"
            )
        return self


Contextualizer = Annotated[
    NoContext | StructuralContext | LLMContext, Field(discriminator="method")
]
