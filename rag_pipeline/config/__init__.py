"""The typed corpus file: the variants of each stage, the configurations, and their fingerprints."""

from importlib import import_module
from typing import Any

from rag_pipeline.config.assistant import (
    AssistantSettings,
    Expansion,
    FolderSource,
    SearxngSource,
    WebSearchSource,
)
from rag_pipeline.config.chunkings import Chunking, ChunkingSettings, Models
from rag_pipeline.config.configurations import STAGES, Configuration, ConfigurationRule
from rag_pipeline.config.contextualizers import Contextualizer, ContextualizerSettings
from rag_pipeline.config.corpus import CorpusConfig, keeps_tokens
from rag_pipeline.config.evaluation import (
    AnswerMethod,
    Answers,
    AnswerSettings,
    Context,
    ContextJudge,
    Entities,
    EntityExtractor,
    Evaluation,
    ExtractiveAnswers,
    GoldRelevance,
    HealthLimits,
    Relevance,
    RelevanceJudge,
)
from rag_pipeline.config.fingerprints import fingerprint
from rag_pipeline.config.keys import LEVELS, Key, Level
from rag_pipeline.config.models import ChatSettings, Embedding, EmbeddingSettings
from rag_pipeline.config.parsing import COMPONENT_TYPE, load_config, parse_config
from rag_pipeline.config.rerankers import PassageReranker, Reranker, RerankerSettings
from rag_pipeline.config.retrievers import (
    AdaptiveSelection,
    Lexical,
    LexicalEngine,
    Retriever,
    RetrieverSettings,
)
from rag_pipeline.config.settings import (
    Alerts,
    DocumentsSource,
    Gate,
    Name,
    RemoteModel,
    Retention,
    Settings,
)

__all__ = [
    "COMPONENT_TYPE",
    "LEVELS",
    "STAGES",
    "AdaptiveSelection",
    "Alerts",
    "AnswerMethod",
    "AnswerSettings",
    "Answers",
    "AssistantSettings",
    "ChatSettings",
    "Chunking",
    "ChunkingSettings",
    "Configuration",
    "ConfigurationRule",
    "Context",
    "ContextJudge",
    "Contextualizer",
    "ContextualizerSettings",
    "CorpusConfig",
    "DocumentsSource",
    "Embedding",
    "EmbeddingSettings",
    "Entities",
    "EntityExtractor",
    "Evaluation",
    "Expansion",
    "ExtractiveAnswers",
    "FolderSource",
    "Gate",
    "GoldRelevance",
    "HealthLimits",
    "Key",
    "Level",
    "Lexical",
    "LexicalEngine",
    "Models",
    "Name",
    "PassageReranker",
    "Relevance",
    "RelevanceJudge",
    "RemoteModel",
    "Reranker",
    "RerankerSettings",
    "Retention",
    "Retriever",
    "RetrieverSettings",
    "SearxngSource",
    "Settings",
    "WebSearchSource",
    "fingerprint",
    "keeps_tokens",
    "load_config",
    "parse_config",
]

_BESIDE_THEIR_CODE = {
    "ChatAnswers": "answering.llm",
    "ChatContext": "evaluation.context_quality.llm",
    "ChatEntities": "evaluation.entities.llm",
    "RuleContext": "evaluation.context_quality.rules",
    "RuleEntities": "evaluation.entities.rules",
    "ChatRelevance": "evaluation.llm_relevance",
    "ContextAwareRetriever": "search.staged",
    "DenseRetriever": "search.retrievers.dense",
    "HybridRetriever": "search.retrievers.hybrid",
    "LexicalRetriever": "search.retrievers.lexical",
    "SinglePass": "search.retrievers",
    "CohereReranker": "models.providers.http_rerank",
    "FlashRankReranker": "models.providers.flashrank_models",
    "JinaReranker": "models.providers.http_rerank",
    "LLMReranker": "search.reranking.llm",
    "MaxSimReranker": "search.reranking.late_interaction",
    "NoReranker": "search.reranking.none",
    "VoyageReranker": "models.providers.voyage",
    "ChatModel": "models.providers.openai",
    "E5Embedding": "models.providers.e5",
    "FastEmbedEmbedding": "models.providers.fastembed_models",
    "FixedChunking": "chunking.fixed",
    "GivenChunking": "chunking.given",
    "LLMContext": "contextualization.llm",
    "MarkdownChunking": "chunking.markdown",
    "MiniLMEmbedding": "models.providers.minilm",
    "NoContext": "contextualization.none",
    "OpenAIEmbedding": "models.providers.openai",
    "RecursiveChunking": "chunking.recursive",
    "SemanticChunking": "chunking.semantic",
    "SentencesChunking": "chunking.windows",
    "StructuralContext": "contextualization.structural",
    "VoyageEmbedding": "models.providers.voyage",
}
"""Settings of the built-in methods and models, which could be imported from here earlier."""


def __getattr__(name: str) -> Any:
    """Import settings that stand beside their code on first use."""
    if name in _BESIDE_THEIR_CODE:
        return getattr(import_module(f"rag_pipeline.{_BESIDE_THEIR_CODE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
