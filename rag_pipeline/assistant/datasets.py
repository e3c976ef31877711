"""What an assistant searches: released corpora, or any other source with the same few verbs."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from rag_pipeline.calls.costs import attributed
from rag_pipeline.config import AnswerMethod, AnswerSettings, AssistantSettings, ChatSettings
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import Document, Formed, ScoredChunk, ToAnswer
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline.search.filters import filter_of
from rag_pipeline.search.reranking import Weights
from rag_pipeline.search.staged import Boost as Boost
from rag_pipeline.search.staged import Discovered
from rag_pipeline.store import quoted

AnswerMaker = Callable[[Sequence[ToAnswer]], Sequence[Formed | ProviderError]]
"""From questions with their passages to what a release answers, or why there is no answer."""

_PATIENCE_SECONDS = 5.0
"""Maximum seconds for which what fails at once is tried again."""
_REMEMBERED = 64
"""Maximum number of the assistant's own searches that stay in memory, a few passages each."""


@dataclass(frozen=True, slots=True)
class DatasetSearch:
    """One search of a dataset; `document_id` restricts it to one document.

    `stages` are `boosted_files` and `variants`, where these are to be others than the release's.
    Chunks beyond the release's `top_k` are searched for only with `deepen`. `own` says that the
    query is the assistant's own, the same for many questions. `where` is a filter in LanceDB's SQL.
    """

    query: str
    k: int
    document_id: str | None = None
    stages: tuple[int, int] | None = None
    rerank: bool = True
    deepen: bool = True
    own: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a dataset found: chunks and documents, best first, and the boosted queries used."""

    chunks: Sequence[ScoredChunk]
    documents: Sequence[Discovered]
    boosted: Mapping[str, Sequence[str]]
    ask: str = ""
    """The part of the query that was searched for; "" where all of it was."""
    token_weights: Weights | None = field(default=None, compare=False, repr=False)
    """Those of the index, where the chunks hold their tokens."""


class Dataset(Protocol):
    """A set of documents that can be searched.

    One whose `shows_documents` is False finds passages of documents that it can't show whole.
    """

    name: str

    def search(self, wanted: DatasetSearch, boost: Boost | None = None) -> Found:
        """Return ranked chunks and documents."""

    def document(self, document_id: str) -> Document:
        """Return a whole document; raise InputError where there is none of this name."""

    def describe(self) -> dict[str, Any]:
        """Return what a client may know: name, description, release, document and chunk counts."""


class ReleasedDataset:
    """The release of a corpus; a newer release is searched as soon as it is open."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.name = corpus.name
        self._made: OrderedDict[tuple[str, DatasetSearch], Found] = OrderedDict()
        self._lock = Lock()

    def search(self, wanted: DatasetSearch, boost: Boost | None = None) -> Found:
        """Search the release in stages; what the assistant itself asks is searched once.

        `boost` is asked for other `stages` than the release's: these were measured without it.
        """
        if not wanted.own or boost is not None:
            return self._search(wanted, boost if wanted.stages else None)
        release_id = self.corpus.searched().release_id
        key = release_id, wanted
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        found = self._search(wanted, None)
        if self.corpus.searched().release_id == release_id:  # or it may be of either
            with self._lock:
                self._made[key] = found
                while len(self._made) > _REMEMBERED:
                    self._made.popitem(last=False)
        return found

    def _search(self, wanted: DatasetSearch, boost: Boost | None) -> Found:
        only = wanted.document_id and f"document_id = {quoted(wanted.document_id)}"
        where = filter_of(wanted.where, only)
        found = self.corpus.retrieve(
            *(wanted.query, wanted.k, where, boost, wanted.stages, wanted.rerank),
            discover=not wanted.own,
            deepen=wanted.deepen,
            tokens=True,
        )
        return Found(
            *(found.chunks, found.documents, found.boosted, found.ask, found.token_weights)
        )

    def answers(self) -> tuple[AnswerSettings, AnswerMaker | None]:
        """Return how the release's questions are answered; quotes are left to the caller."""
        settings, chats = self.corpus.answers()
        if not isinstance(settings, AnswerMethod):
            return settings, None
        method, hurry = settings, self.corpus.config.assistant
        hurried = {name: interactive(chat, hurry) for name, chat in chats.items()}
        models = self.corpus.workspace.models(chats=hurried)

        def answer(asked: Sequence[ToAnswer]) -> Sequence[Formed | ProviderError]:
            with attributed("assistant.answer"):
                return method.answer(asked, models)

        return settings, answer

    def document(self, document_id: str) -> Document:
        """Return a document of the release as it was indexed."""
        return self.corpus.document(document_id)

    def describe(self) -> dict[str, Any]:
        """Return name, description, release, and how much it holds."""
        release = self.corpus.release()
        return {
            "name": self.name,
            "description": self.corpus.config.description,
            "release": release.release_id,
            "released": release.created,
            "configuration": release.configuration,
            "chunks": release.pinned.rows,
        }


def interactive(chat: ChatSettings, settings: AssistantSettings) -> ChatSettings:
    """Return a chat model's settings for somebody who waits: no batches, and failures early."""
    seconds = settings.model_seconds
    hurried = chat.within(seconds, min(seconds, _PATIENCE_SECONDS))
    return hurried.model_copy(update={"batch": False})  # a provider's batches would take days


def choose(datasets: Mapping[str, Dataset], names: Sequence[str] | None) -> list[Dataset]:
    """Return the named datasets, all of them if none is named; raise InputError for others."""
    if not names:
        if not datasets:
            raise InputError("name the dataset to search")
        return list(datasets.values())
    for name in names:
        if name not in datasets:
            raise InputError(f"no dataset {name[:80]!r}; there are: {', '.join(datasets)}")
    return [datasets[name] for name in dict.fromkeys(names)]
