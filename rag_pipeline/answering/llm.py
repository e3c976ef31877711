"""Answer with a chat model from numbered passages, and check the citations."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from rag_pipeline.config import AnswerMethod, CorpusFile, ExtractiveAnswers, Models
from rag_pipeline.config.settings import ChatName, Share
from rag_pipeline.datamodels import Answer, Reply, SearchResult
from rag_pipeline.errors import ProviderError
from rag_pipeline.models.prompts import Shown, template_of

_PROMPT = template_of(__file__)


class ChatAnswers(AnswerMethod):
    """Answers with a chat model from the first `contexts` chunks, and checks the citations.

    A sentence is supported if its cited passages contain all its facts. They must also contain a
    similar sentence, or at least the share `support` (0 to 1) of its content words. If no sentence
    is supported, quotes replace the answer. A `template` of your own holds `{query}` and
    `{passages}`, which become delimited texts.
    """

    code_version = 22

    method: Literal["llm"]
    chat: ChatName
    support: Share = 0.5
    template: Annotated[str | None, AfterValidator(_PROMPT.check)] = None

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return the chat model and the prompt."""
        return [*super().made_from(config), _PROMPT.using(self.template).version]

    def answer(
        self, found: Sequence[SearchResult], models: Models
    ) -> Sequence[Answer | ProviderError]:
        """Return an answer or error per query. A query without chunks is not sent to the model."""
        # Reading a corpus file imports this module, and needs none of these.
        from rag_pipeline.answering.forms import or_none
        from rag_pipeline.answering.written import or_quotes, read_answer

        template = _PROMPT.using(self.template)
        asked = [
            template.prompt(
                query=one.query, passages=[Shown(c.text, c.document_id) for c in one.chunks]
            )
            for one in found
            if one.chunks
        ]
        replies = iter(models.ask(asked, self.chat))
        answers: list[Answer | ProviderError] = []
        for one in found:
            reply = next(replies) if one.chunks else None
            if isinstance(reply, Reply):
                answer = or_none(read_answer(reply.text, one.chunks, self.support))
                answers.append(or_quotes(answer, partial(_quoted, one)))
            else:
                answers.append(reply or or_none(Answer("", answered=False)))
        return answers


def _quoted(found: SearchResult) -> Answer:
    from rag_pipeline.answering.forms import form_answers
    from rag_pipeline.answering.intent import detect
    from rag_pipeline.answering.reading import sentence_vectors

    # The evaluation has only the text of chunks, and no model that reads the question. Served
    # answers ignore the rest, too.
    plain = [replace(chunk, token_signs=b"", context="", title="") for chunk in found.chunks]
    kind = detect(found.query).kind
    found = replace(found, chunks=plain, token_weights=None, kind=kind)
    return form_answers([found], ExtractiveAnswers(), sentence_vectors)[0]
