"""Answer questions over released corpora: intent, discovery, staged search, cited answers."""

import logging
from collections.abc import Sequence

from rag_pipeline.answering.intent import Intent as Intent
from rag_pipeline.answering.intent import detect as detect
from rag_pipeline.answering.sentences import sentence_vectors as sentence_vectors
from rag_pipeline.assistant.datasets import Dataset as Dataset
from rag_pipeline.assistant.datasets import ReleasedDataset as ReleasedDataset
from rag_pipeline.assistant.expansion import ExpandedDataset as ExpandedDataset
from rag_pipeline.assistant.language_model import LanguageModel as LanguageModel
from rag_pipeline.assistant.language_model import open_language_model as open_language_model
from rag_pipeline.assistant.model import Model as Model
from rag_pipeline.assistant.model import Reflection as Reflection
from rag_pipeline.assistant.pipeline import Assistant as Assistant
from rag_pipeline.assistant.results import Assisted as Assisted
from rag_pipeline.assistant.results import FoundDocument as FoundDocument
from rag_pipeline.assistant.results import Passage as Passage
from rag_pipeline.assistant.results import Progress as Progress
from rag_pipeline.assistant.results import Source as Source
from rag_pipeline.assistant.results import Stage as Stage
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import ConfigError

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
