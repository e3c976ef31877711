"""Check a run's inputs and models before the run makes paid calls."""

import os
from collections.abc import Iterator

from rag_pipeline.config import ChatSettings, CorpusConfig, RemoteModel, Settings
from rag_pipeline.config.rerankers import FunctionReranker, ModelReranker, PassageReranker
from rag_pipeline.errors import ConfigError, ProviderError
from rag_pipeline.evaluation.scores import check_metric_names
from rag_pipeline.loading.queries import read_queries
from rag_pipeline.models.providers import open_embedder, open_scorer


def check_inputs(config: CorpusConfig) -> None:
    """Check the names of metrics, the queries, and the inputs of all variants.

    Raise InputError with file, line and value if a value is wrong. Raise ConfigError if a file is
    missing or a metric is unknown.
    """
    check_metric_names(config)
    if config.queries_path is not None:
        read_queries(config.queries_path)
    config.check_variants()


def check_models(config: CorpusConfig, configuration: str | None = None) -> int:
    """Open every model that the configurations use, and return the number of models.

    No request is sent. Raise ConfigError with a line for each model that lacks its key, package,
    folder or dimension.
    """
    mistakes: list[str] = []
    models = dict(_models(config, configuration))
    for place, settings in models.items():
        try:
            _open(config, settings)
        except (ConfigError, ProviderError) as error:
            mistakes.append(f"{config.where}: {place}: {error}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return len(models)


def _open(config: CorpusConfig, settings: Settings) -> None:
    if isinstance(settings, RemoteModel) and settings.base_url is None:
        variable = settings.api_key_env
        if not os.environ.get(variable):
            raise ConfigError(f"the environment variable {variable} is not set; set it to your key")
    if isinstance(settings, ChatSettings | FunctionReranker):
        return
    if isinstance(settings, ModelReranker):
        _ = open_scorer(config.located(settings)).identity
    else:
        _ = open_embedder(config.located(settings)).dimension


def _models(config: CorpusConfig, configuration: str | None) -> Iterator[tuple[str, Settings]]:
    """Yield the models' settings with their paths in the corpus file."""
    chosen = config.all_configurations
    if configuration:
        chosen = {configuration: config.configuration(configuration)}
    chats = set(config.evaluation.named_chats())
    for one in chosen.values():
        yield f"embeddings.{one.embedding}", config.embeddings[one.embedding]
        for stage in ("chunking", "contextualizer", "retriever"):
            for _, section, name in config.chosen(one, stage).names():
                yield f"{section}.{name}", config.section(section)[name]
        reranker = config.rerankers[one.reranker]
        if isinstance(reranker, PassageReranker):
            yield f"rerankers.{one.reranker}", reranker
        chats.update(reranker.named_chats())
    for chat in sorted(chats):
        yield f"chats.{chat}", config.chat(chat)
