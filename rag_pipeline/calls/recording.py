"""A call cache for dry runs. It records the calls that a run would make, and writes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rag_pipeline.calls import sql
from rag_pipeline.calls.cache import NO_USAGE, CallCache
from rag_pipeline.calls.costs import CallKind, ChargedTokens, Learned, estimating
from rag_pipeline.config import Settings
from rag_pipeline.datamodels import Usage
from rag_pipeline.errors import StoreError


@dataclass(slots=True)
class RecordingCache(CallCache):
    """A call cache that is only read.

    With this cache, `models.chat.ask`, `models.embedding.embed_tokens` and
    `search.reranking.passages.score_passages` record a call instead of making it. For a missing
    answer they return an `UnknownReply`, or return or raise an UnknownReplyError.
    """

    reads: bool = True
    """Whether vectors are read. If not, each lookup of vectors raises UnknownReplyError."""
    stands_in: bool = True
    """Whether a missing text becomes an UnknownReply. If not, it raises UnknownReplyError."""
    known_keys: set[bytes] = field(default_factory=set)
    """Calls with an answer that were looked up since `begin`."""
    missing: dict[CallKind, dict[bytes, ChargedTokens]] = field(default_factory=dict)
    """Calls without an answer that were looked up since `begin`, with their expected tokens."""
    asked: dict[bytes, Settings] = field(default_factory=dict)
    """The models of calls without an answer. Only steps that may ask several models set them."""
    learned: Callable[[CallKind, Settings | None], Learned] = lambda kind, model: Learned()
    """Returns the learned tokens of a model, or of the step's model if the settings are None."""
    guessed: bool = False
    """Whether a prompt may depend on an earlier prompt that has no answer."""

    @classmethod
    def of(cls, cache: CallCache) -> "RecordingCache":
        """Return a recording cache that reads the answers of `cache`."""
        own = None if cache.own is None else cls.of(cache.own)
        return cls(cache.database, own, cache.files, cache.store)

    def begin(self, *, reads: bool = True, stands_in: bool = True) -> None:
        """Forget all recorded calls, and set `reads` and `stands_in`."""
        self.known_keys, self.missing = set(), {}
        self.reads, self.stands_in, self.guessed = reads, stands_in, False

    def note(
        self,
        kind: CallKind,
        keys: Sequence[bytes],
        tokens: Callable[[bytes], ChargedTokens],
        model: Settings | None = None,
    ) -> list[bytes]:
        """Record calls, and their model if it is given. Return the calls without an answer.

        `tokens` estimates the tokens of a call without an answer.
        """
        known = self.known(keys)
        self.known_keys |= known
        missing = [key for key in keys if key not in known]
        self.guessed |= bool(self.missing.get(kind)) and bool(missing)
        noted = self.missing.setdefault(kind, {})
        if model is not None:
            self.asked |= dict.fromkeys(missing, model)
        with estimating(self.learned(kind, model)):
            for key in missing:
                if key not in noted:
                    noted[key] = tokens(key)
        return missing

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if not self.database.exists:
            return {}
        # Unlike a run, a dry run does not update the last use of the answers.
        rows = self.database.read_keys(sql.select(sql.answers), sql.answers.c.key, keys)
        found = ((row.key, self._content(row)) for row in rows)
        return {key: value for key, value in found if value is not None}

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return the keys that have an answer."""
        return CallCache.known(self, keys) if self.database.exists else set()

    def _share(self, found: Mapping[bytes, bytes], own: CallCache) -> None:
        """Do nothing: a dry run writes nothing."""

    def put(self, new: Mapping[bytes, bytes], usage: Mapping[bytes, Usage] = NO_USAGE) -> None:
        """Raise StoreError: a dry run has no answers to store."""
        raise StoreError(f"{self.database.place}: a dry run writes nothing")
