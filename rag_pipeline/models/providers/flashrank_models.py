"""Run cross-encoders from a local folder with the package flashrank."""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_pipeline.config.rerankers import ModelReranker
from rag_pipeline.errors import ConfigError, MissingExtraError, ProviderError, TextTooLongError
from rag_pipeline.models.providers.limits import RerankLimits
from rag_pipeline.store.folders import sha256_of

_PASSAGES_PER_BATCH = 32


class FlashRankReranker(ModelReranker):
    """A cross-encoder that the package flashrank reads from the folder `path`, without a download.

    The name of the folder must be flashrank's name of the model, such as `ms-marco-MiniLM-L-12-v2`.
    """

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"path"})
    requires: ClassVar[Mapping[str, str]] = {"flashrank": "flashrank"}
    method: Literal["flashrank"]
    model: str = Field(default="ms-marco-MiniLM-L-12-v2", min_length=1)
    path: str
    max_tokens: int = Field(default=512, ge=16)
    truncate: bool = False

    def open(self) -> "FlashRankScorer":
        """Return a scorer that runs the model."""
        return FlashRankScorer(self)


class FlashRankScorer:
    """An opened cross-encoder of flashrank (Damodaran 2023)."""

    def __init__(self, settings: FlashRankReranker) -> None:
        self._settings = settings
        self._lock = Lock()
        self.limits = RerankLimits(passages=1000, pair_tokens=None)
        self.truncate = True  # `score` counts tokens with the model's own tokenizer.

    @cached_property
    def identity(self) -> str:
        """Return the model's name and the hash of its file."""
        settings, version = self._settings, sha256_of(self._file)[:12]
        return f"flashrank:{settings.model}:{version}:{settings.max_tokens}:{settings.truncate}"

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each passage, in order."""
        from flashrank import RerankRequest

        ranker = self._ranker
        scores: list[float] = []
        with self._lock:
            if not self._settings.truncate:
                self._check_lengths(query, passages)
            for first in range(0, len(passages), _PASSAGES_PER_BATCH):
                part = passages[first : first + _PASSAGES_PER_BATCH]
                asked = [{"id": n, "text": text} for n, text in enumerate(part)]
                ranked = ranker.rerank(RerankRequest(query=query, passages=asked))
                by_id = {row["id"]: float(row["score"]) for row in ranked}
                scores.extend(by_id[n] for n in range(len(part)))
        return scores

    def _check_lengths(self, query: str, passages: Sequence[str]) -> None:
        encoded = self._ranker.tokenizer.encode_batch([(query, passage) for passage in passages])
        for passage, encoding in zip(passages, encoded, strict=True):
            if encoding.overflowing:
                raise TextTooLongError(
                    f"{self._settings.model}: query and passage have more than max_tokens "
                    f"{self._settings.max_tokens:,}; make chunks smaller or set `truncate: true`",
                    passage,
                )

    @property
    def _file(self) -> Path:
        try:
            from flashrank.Config import listwise_rankers, model_file_map
        except ImportError:
            raise MissingExtraError("flashrank", "flashrank") from None
        model, folder = self._settings.model, Path(self._settings.path)
        if model not in model_file_map or model in listwise_rankers:
            known = ", ".join(name for name in model_file_map if name not in listwise_rankers)
            raise ConfigError(f"flashrank: model {model!r} is not one of: {known}")
        file = folder / str(model_file_map[model])
        if not file.is_file() or folder.name != model:
            raise ConfigError(
                f"flashrank: {folder} is not the folder of {model}; the folder must have this name "
                f"and hold {model_file_map[model]}, from huggingface.co/prithivida/flashrank"
            )
        return file

    @cached_property
    def _ranker(self) -> Any:
        folder = self._file.parent
        from flashrank import Ranker

        root = logging.getLogger()
        before = list(root.handlers), root.level
        try:
            return Ranker(self._settings.model, str(folder.parent), self._settings.max_tokens)
        except Exception as error:  # noqa: BLE001 - flashrank's libraries raise any error
            reason = " ".join(str(error).split())[:200]
            raise ProviderError(
                f"flashrank: cannot load {self._settings.model} from {folder}: {reason}"
            ) from None
        finally:
            # flashrank changes the logging of the whole program.
            root.handlers[:] = before[0]
            root.setLevel(before[1])
