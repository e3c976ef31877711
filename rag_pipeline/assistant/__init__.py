"""Answer questions over released corpora: intent, discovery, staged search, cited answers."""

import logging
from collections.abc import Sequence

from rag_pipeline.answering.intent import Intent, detect
from rag_pipeline.answering.sentences import sentence_vectors
from rag_pipeline.assistant.datasets import Dataset, ReleasedDataset
from rag_pipeline.assistant.expansion import ExpandedDataset
from rag_pipeline.assistant.language_model import LanguageModel, open_language_model
from rag_pipeline.assistant.model import Model, Reflection
from rag_pipeline.assistant.pipeline import Assistant
from rag_pipeline.assistant.results import (
    Assisted,
    FoundDocument,
    Passage,
    Progress,
    Source,
    Stage,
)
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError

__all__ = [
    "Assistant",
    "Assisted",
    "Dataset",
    "ExpandedDataset",
    "FoundDocument",
    "Intent",
    "LanguageModel",
    "Model",
    "Passage",
    "Progress",
    "Reflection",
    "ReleasedDataset",
    "Source",
    "Stage",
    "detect",
    "open_assistant",
    "open_language_model",
    "sentence_vectors",
]


_log = logging.getLogger(__name__)


def open_assistant(corpora: Sequence[Corpus], model: Model | None = None) -> Assistant:
    """Return an assistant over the releases of some corpora, set up as the first one's file says.

    Its `assistant.chat` is the model where none is given. Raises ConfigError where two corpora
    have one name, MissingExtraError where the model needs a package that is not installed.
    """
    datasets: dict[str, Dataset] = {}
    expansions: dict[str, ExpandedDataset] = {}
    for corpus in corpora:
        if corpus.name in datasets:
            raise ConfigError(f"two corpora are called {corpus.name!r}; give one another name")
        datasets[corpus.name] = ReleasedDataset(corpus)
        expansion = corpus.config.assistant.expansion
        if expansion is not None:
            expansions[corpus.name] = ExpandedDataset(corpus, expansion)
    first = corpora[0]
    if model is None and first.config.unmeasured:
        _log.warning(first.config.unmeasured)
    return Assistant(
        datasets,
        first.config.assistant,
        sentence_vectors,
        model or open_language_model(first),
        expansions=expansions,
    )
