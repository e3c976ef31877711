"""The settings of embedding models: packaged, from a local folder, or behind a provider's API."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_pipeline.config.settings import RemoteModel, Settings


class MiniLMEmbedding(Settings):
    """The packaged all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no key and no network.

    `token_vectors` also keeps each token's vector, at 52 bytes a token, for the reranker `maxsim`.
    """

    provider: Literal["minilm"]
    token_vectors: bool = False


class FastEmbedEmbedding(Settings):
    """BGE and other ONNX models by the package fastembed, on this machine.

    With `path`, the model is read from that folder (`model_file`, tokenizer.json,
    tokenizer_config.json) and nothing is downloaded; a `model` that fastembed does not know then
    needs `dimensions` and `pooling`. Without it, fastembed fetches `model` from its hub once.
    Texts over the model's window are cut only with `truncate`.
    """

    operational: ClassVar[frozenset[str]] = frozenset({"path", "threads"})
    provider: Literal["fastembed"]
    model: str = Field(default="BAAI/bge-small-en-v1.5", min_length=1)
    path: str | None = None
    model_file: str = "model.onnx"
    dimensions: int | None = Field(default=None, ge=1)
    pooling: Literal["cls", "mean", "last"] = "mean"
    truncate: bool = False
    threads: int | None = Field(default=None, ge=1)


class _RemoteEmbedding(RemoteModel):
    """An embedding model behind an API.

    Requests stay within the limits that are known of the model (`providers/limits.py`); set
    `max_texts`, `max_request_tokens` and `max_text_tokens` for another. Tokens are counted with
    `tokenizer`, the path of a model's tokenizer.json, else estimated on the safe side. A text over
    the limit is cut only with `truncate`, else an error names it.
    """

    operational: ClassVar[frozenset[str]] = RemoteModel.operational | {
        "max_texts",
        "max_request_tokens",
    }
    dimensions: int | None = Field(default=None, ge=1)
    truncate: bool = False
    tokenizer: str | None = None
    max_texts: int | None = Field(default=None, ge=1)
    max_request_tokens: int | None = Field(default=None, ge=1)
    max_text_tokens: int | None = Field(default=None, ge=1)


class OpenAIEmbedding(_RemoteEmbedding):
    """`text-embedding-3-*` of OpenAI, or a model of any server that speaks its protocol.

    Of a model that is not known, `dimensions` must say how long its vectors are; with `shorten`
    the server is asked for that length, as OpenAI's always is.
    """

    provider: Literal["openai"]
    model: str = Field(default="text-embedding-3-small", min_length=1)
    api_key_env: str = "OPENAI_API_KEY"
    shorten: bool = False


class VoyageEmbedding(_RemoteEmbedding):
    """Voyage's models, which embed documents and queries differently.

    `voyage-context-*` embed the chunks of a document together, each in the light of the others: a
    changed chunk embeds its document again. A document over the model's window is embedded in
    consecutive parts of whole chunks.
    """

    provider: Literal["voyage"]
    model: str = Field(default="voyage-3.5", min_length=1)
    api_key_env: str = "VOYAGE_API_KEY"


Embedding = Annotated[
    MiniLMEmbedding | FastEmbedEmbedding | OpenAIEmbedding | VoyageEmbedding,
    Field(discriminator="provider"),
]
