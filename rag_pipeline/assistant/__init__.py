"""Answer questions from released corpora: read the intent, search, and write cited answers."""

import logging
from collections.abc import Sequence

from rag_pipeline.answering.intent import Intent as Intent
from rag_pipeline.answering.reading import sentence_vectors as sentence_vectors
from rag_pipeline.assistant.expansion import ExpandedCorpus as ExpandedCorpus
from rag_pipeline.assistant.language_model import LanguageModel as LanguageModel
from rag_pipeline.assistant.language_model import open_language_model
from rag_pipeline.assistant.model import Reflection as Reflection
from rag_pipeline.assistant.pipeline import Assistant as Assistant
from rag_pipeline.assistant.released import ReleasedCorpus as ReleasedCorpus
from rag_pipeline.assistant.released import SearchedCorpus
from rag_pipeline.assistant.results import AssistedAnswer as AssistedAnswer
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError

_log = logging.getLogger(__name__)


def open_assistant(corpora: Sequence[Corpus]) -> Assistant:
    """Return an assistant for the releases of some corpora, with the settings of the first corpus.

    The model is the first corpus's `assistant.chat`. Raise ConfigError if two corpora have
    the same name. Raise MissingExtraError if the model needs a package that is not installed.
    """
    searched: dict[str, SearchedCorpus] = {}
    expansions: dict[str, ExpandedCorpus] = {}
    for corpus in corpora:
        if corpus.name in searched:
            raise ConfigError(f"two corpora have the name {corpus.name!r}; rename one of them")
        searched[corpus.name] = ReleasedCorpus(corpus)
        expansion = corpus.config.assistant.expansion
        if expansion is not None:
            expansions[corpus.name] = ExpandedCorpus(corpus, expansion)
    first = corpora[0]
    if first.config.unmeasured:
        _log.warning(first.config.unmeasured)
    return Assistant(
        corpora=searched,
        settings=first.config.assistant,
        reader=sentence_vectors,
        model=open_language_model(first),
        expansions=expansions,
    )
