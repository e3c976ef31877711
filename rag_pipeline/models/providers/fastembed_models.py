"""Run BGE and other ONNX embedding models on this machine with the package fastembed."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_pipeline.config.models import EmbeddingSettings, InputType
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import ConfigError, ProviderError, TextTooLongError, import_extra
from rag_pipeline.models.providers.packaged import padded_groups
from rag_pipeline.store.folders import sha256_of

TOKENS_PER_BATCH = 4096


class FastEmbedEmbedding(EmbeddingSettings):
    """An ONNX embedding model, such as BGE, that the package fastembed runs on this machine.

    The folder `path` has the files `model_file`, tokenizer.json and tokenizer_config.json. A model
    that fastembed does not know also needs `dimensions`, and `pooling` unless the model uses the
    mean. Without `path`, fastembed downloads `model` once. A text over the model's window is cut if
    `truncate` is set. Otherwise, the text raises an error.
    """

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"path", "threads"})
    requires: ClassVar[Mapping[str, str]] = {"fastembed": "fastembed"}
    provider: Literal["fastembed"]
    model: str = Field(default="BAAI/bge-small-en-v1.5", min_length=1)
    path: str | None = None
    model_file: str = "model.onnx"
    dimensions: int | None = Field(default=None, ge=1)
    pooling: Literal["cls", "mean", "last"] = "mean"
    truncate: bool = False
    threads: int | None = Field(default=None, ge=1)

    def open(self) -> "FastEmbedEmbedder":
        """Return the model. Raise ConfigError if `path` has no model file."""
        return FastEmbedEmbedder(self)


class FastEmbedEmbedder:
    """An embedding model of fastembed. The first use loads or downloads the model."""

    def __init__(self, settings: FastEmbedEmbedding) -> None:
        self._settings = settings
        self._lock = Lock()
        if settings.path is not None and not (Path(settings.path) / settings.model_file).is_file():
            raise ConfigError(
                f"{settings.model}: no file {settings.model_file} in {settings.path}; set `path` "
                f"and `model_file`"
            )

    @cached_property
    def dimension(self) -> int:
        """Return the length of the model's vectors."""
        known = _known(self._settings.model)
        wanted = self._settings.dimensions
        if known is None:
            if wanted is None or self._settings.path is None:
                raise ConfigError(
                    f"{self._settings.model}: not one of fastembed's models; set `path` to its "
                    f"folder and `dimensions` to the length of its vectors"
                )
            return wanted
        if wanted not in (None, known):
            raise ConfigError(
                f"{self._settings.model}: its vectors have {known} dimensions, not {wanted}"
            )
        return known

    @cached_property
    def identity(self) -> str:
        """Return the model's name, the hash of a local file, and the settings of the vectors."""
        settings = self._settings
        version = "hub"
        if settings.path is not None:
            version = sha256_of(Path(settings.path) / settings.model_file)[:12]
        pooling = "own" if _known(settings.model) else settings.pooling
        return f"fastembed:{settings.model}:{version}:{pooling}:{settings.truncate}"

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield groups of positions, sorted by token count, of at most 4,096 tokens with padding.

        Raise TextTooLongError for a text over the model's window, unless `truncate` is set.
        """
        encoded = self._model.model.tokenizer.encode_batch(list(texts)) if texts else []
        lengths = [sum(e.attention_mask) for e in encoded]
        for text, encoding, length in zip(texts, encoded, lengths, strict=True):
            if encoding.overflowing and not self._settings.truncate:
                raise TextTooLongError(
                    f"{self._settings.model}: more than the {length:,} tokens of its window; make "
                    f"chunks smaller or set `truncate: true`",
                    text,
                )
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        return padded_groups(order, lengths, TOKENS_PER_BATCH)

    def embed(self, texts: Sequence[str], input_type: InputType) -> Vectors:
        """Embed one batch. Queries get the query prefix that fastembed knows for the model."""
        model = self._model
        run = model.query_embed if input_type == "query" else model.passage_embed
        with self._lock:
            made = np.stack(list(run(list(texts), batch_size=len(texts)))).astype(np.float32)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return np.asarray(made / np.where(lengths > 0, lengths, 1), np.float32)

    @cached_property
    def _model(self) -> Any:
        settings = self._settings
        fastembed = _fastembed()
        name = settings.model
        more: dict[str, Any] = {}
        if settings.path is not None:
            more["specific_model_path"] = settings.path
            if _known(name) is None:
                name = _register(settings, self.identity)
        try:
            return fastembed.TextEmbedding(name, threads=settings.threads, **more)
        except Exception as error:  # noqa: BLE001 - fastembed's libraries raise any error
            where = settings.path or "fastembed's hub"
            reason = " ".join(str(error).split())[:200]
            raise ProviderError(
                f"{settings.model}: cannot load the model from {where}: {reason}"
            ) from None


def _fastembed() -> Any:
    return import_extra("fastembed", "fastembed", "fastembed")


def _known(model: str) -> int | None:
    """Return the dimension of one of fastembed's own models, or None for any other model."""
    models = _fastembed().TextEmbedding.list_supported_models()
    found = [m["dim"] for m in models if m["model"].lower() == model.lower()]
    return int(found[0]) if found else None


def _register(settings: FastEmbedEmbedding, identity: str) -> str:
    """Register a model with fastembed by its identity, once in a process. Return the identity."""
    from fastembed.common.model_description import ModelSource, PoolingType

    fastembed = _fastembed()
    if _known(identity) is None:
        fastembed.TextEmbedding.add_custom_model(
            model=identity,
            pooling={
                "cls": PoolingType.CLS,
                "mean": PoolingType.MEAN,
                "last": PoolingType.LAST_TOKEN,
            }[settings.pooling],
            normalization=True,
            sources=ModelSource(hf="local"),
            dim=settings.dimensions or 0,
            model_file=settings.model_file,
        )
    return identity
