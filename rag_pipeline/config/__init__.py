"""The typed corpus file: the variants of each stage, the configurations, and their fingerprints."""

from importlib import import_module
from typing import Any

from rag_pipeline.config.assistant import AssistantSettings as AssistantSettings
from rag_pipeline.config.assistant import Expansion as Expansion
from rag_pipeline.config.assistant import FolderSource as FolderSource
from rag_pipeline.config.assistant import SearxngSource as SearxngSource
from rag_pipeline.config.assistant import WebSearchSource as WebSearchSource
from rag_pipeline.config.chunkings import Chunking as Chunking
from rag_pipeline.config.chunkings import ChunkingSettings as ChunkingSettings
from rag_pipeline.config.chunkings import Models as Models
from rag_pipeline.config.configurations import STAGES as STAGES
from rag_pipeline.config.configurations import Configuration as Configuration
from rag_pipeline.config.configurations import ConfigurationRule as ConfigurationRule
from rag_pipeline.config.contextualizers import Contextualizer as Contextualizer
from rag_pipeline.config.contextualizers import ContextualizerSettings as ContextualizerSettings
from rag_pipeline.config.corpus import CorpusConfig as CorpusConfig
from rag_pipeline.config.corpus import keeps_tokens as keeps_tokens
from rag_pipeline.config.evaluation import AnswerMethod as AnswerMethod
from rag_pipeline.config.evaluation import Answers as Answers
from rag_pipeline.config.evaluation import AnswerSettings as AnswerSettings
from rag_pipeline.config.evaluation import Context as Context
from rag_pipeline.config.evaluation import ContextJudge as ContextJudge
from rag_pipeline.config.evaluation import Entities as Entities
from rag_pipeline.config.evaluation import EntityExtractor as EntityExtractor
from rag_pipeline.config.evaluation import Evaluation as Evaluation
from rag_pipeline.config.evaluation import ExtractiveAnswers as ExtractiveAnswers
from rag_pipeline.config.evaluation import GoldRelevance as GoldRelevance
from rag_pipeline.config.evaluation import HealthLimits as HealthLimits
from rag_pipeline.config.evaluation import RelevanceJudge as RelevanceJudge
from rag_pipeline.config.evaluation import RelevanceVariant as RelevanceVariant
from rag_pipeline.config.fingerprints import fingerprint as fingerprint
from rag_pipeline.config.keys import LEVELS as LEVELS
from rag_pipeline.config.keys import Key as Key
from rag_pipeline.config.keys import KeyLevel as KeyLevel
from rag_pipeline.config.models import ChatSettings as ChatSettings
from rag_pipeline.config.models import Embedding as Embedding
from rag_pipeline.config.models import EmbeddingSettings as EmbeddingSettings
from rag_pipeline.config.parsing import COMPONENT_TYPE as COMPONENT_TYPE
from rag_pipeline.config.parsing import load_config as load_config
from rag_pipeline.config.parsing import parse_config as parse_config
from rag_pipeline.config.plugins import built_in
from rag_pipeline.config.rerankers import PassageReranker as PassageReranker
from rag_pipeline.config.rerankers import Reranker as Reranker
from rag_pipeline.config.rerankers import RerankerSettings as RerankerSettings
from rag_pipeline.config.retrievers import AdaptiveSelection as AdaptiveSelection
from rag_pipeline.config.retrievers import Lexical as Lexical
from rag_pipeline.config.retrievers import LexicalEngine as LexicalEngine
from rag_pipeline.config.retrievers import Retriever as Retriever
from rag_pipeline.config.retrievers import RetrieverSettings as RetrieverSettings
from rag_pipeline.config.settings import Alerts as Alerts
from rag_pipeline.config.settings import DocumentsSource as DocumentsSource
from rag_pipeline.config.settings import Gate as Gate
from rag_pipeline.config.settings import Name as Name
from rag_pipeline.config.settings import RemoteModel as RemoteModel
from rag_pipeline.config.settings import Retention as Retention
from rag_pipeline.config.settings import Settings as Settings


def __getattr__(name: str) -> Any:
    """Import the settings of a built-in method or model, which stand beside their code."""
    if name == "SinglePass":
        return import_module("rag_pipeline.search.retrievers").SinglePass
    if name[:1].isupper() and (point := built_in(name)) is not None:
        return point.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
