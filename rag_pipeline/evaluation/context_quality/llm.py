"""Use a chat model to judge contexts: the level and use of each context, and missing facts."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from rag_pipeline.config import ContextJudge, CorpusFile, Models
from rag_pipeline.config.settings import ChatName
from rag_pipeline.datamodels import Answered, ContextJudgement, Judged
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.chat import Prompt, Reply
from rag_pipeline.models.prompts import Shown, object_schema, template_of

_PROMPT = template_of(__file__)


class ChatContext(ContextJudge):
    """A chat model that judges the level and use of each context, and lists missing facts.

    If `overall` is set, the model also rates all contexts together in one sentence. A `template`
    replaces the packaged prompt. It must contain the placeholders `{query}`, `{answer}` and
    `{passages}`. Their texts stand between delimiters.
    """

    code_version = 2
    judge: Literal["llm"]
    chat: ChatName
    overall: bool = False
    template: Annotated[str | None, AfterValidator(_PROMPT.check)] = None

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model and the prompt."""
        return [*super().made_from(config), _PROMPT.using(self.template).version]

    def judge_contexts(
        self, answered: Sequence[Answered], models: Models
    ) -> list[ContextJudgement | ProviderError]:
        """Return each query's judgement, or its call's error. No contexts need no call."""
        shown = [n for n, one in enumerate(answered) if one.contexts]
        prompts = [self._prompt(answered[n]) for n in shown]
        judged: list[ContextJudgement | ProviderError] = [ContextJudgement(()) for _ in answered]
        for n, reply in zip(shown, models.ask(prompts, self.chat), strict=True):
            judged[n] = _read(reply) if isinstance(reply, Reply) else reply
        return judged

    def _prompt(self, one: Answered) -> Prompt:
        return _PROMPT.using(self.template).prompt(
            passages=[Shown(chunk.text, chunk.document_id) for chunk in one.contexts],
            answer=one.answer.text,
            query=one.query.query,
            schema=judgement_schema(len(one.contexts), self.overall),
        )


def judgement_schema(count: int, overall: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a judgement of `count` contexts."""
    level = {"type": "string", "enum": ["high", "medium", "low", "none"]}
    text = {"type": "string"}
    context = object_schema({"level": level, "used": {"type": "boolean"}, "reason": text})
    return object_schema(
        {
            **{f"context_{number}": context for number in range(1, count + 1)},
            "missing": {"type": "array", "items": text},
            **({"overallAssessment": text} if overall else {}),
        }
    )


def _read(reply: Reply) -> ContextJudgement:
    # A model may write the properties in any order.
    count = sum(name.startswith("context_") for name in reply.data)
    parts = [reply.data[f"context_{number}"] for number in range(1, count + 1)]
    return ContextJudgement(
        tuple(Judged(part["level"], part["used"], part["reason"].strip()) for part in parts),
        tuple(item for item in reply.data["missing"] if item.strip()),
        reply.data.get("overallAssessment", "").strip(),
    )
