"""OpenAI and all servers that speak its protocol: settings, and which client they open."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, PrivateAttr

from rag_pipeline.config import RemoteModel
from rag_pipeline.config.models import ChatSettings
from rag_pipeline.models.providers.remote import RemoteEmbedding

if TYPE_CHECKING:
    from rag_pipeline.models.providers.openai_chat import OpenAIChat
    from rag_pipeline.models.providers.openai_embedding import OpenAIEmbedder


class OpenAIProtocol(RemoteModel, ChatSettings):
    """A chat model behind the OpenAI protocol; a vendor adds `provider` and its own defaults.

    The key is read from the environment variable that `api_key_env` names; a server that wants
    none needs none. `seed` and `temperature` are sent where they are set. With `batch`, calls go
    through the provider's Batch API: at a lower price, answered within a day.
    """

    not_fingerprinted = RemoteModel.not_fingerprinted | ChatSettings.not_fingerprinted

    api_key_env: str = "OPENAI_API_KEY"
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0)
    seed: int | None = None

    @property
    def identity(self) -> str:
        """Return provider, model and parameters: whatever changes the answers."""
        server = self.identity_url or "api.openai.com"
        own = (self.model, self.temperature, self.seed, self.max_output_tokens)
        return ":".join(str(part) for part in (self.provider, server, *own))

    def within(self, seconds: float, patience: float) -> Self:
        """Return the settings with a timeout and a patience that are no longer than that."""
        timeout = min(self.timeout_seconds, seconds)
        patience = min(self.patience_seconds, patience)
        return self.model_copy(update={"timeout_seconds": timeout, "patience_seconds": patience})

    def open(self) -> "OpenAIChat":
        """Return a client; raise ProviderError where its key is not set."""
        from rag_pipeline.models.providers.openai_chat import OpenAIChat

        return OpenAIChat(self)


class ChatModel(OpenAIProtocol):
    """A chat model behind the OpenAI protocol: OpenAI, Azure, vLLM, Ollama, llama.cpp."""

    provider: Literal["openai"]


class GivenKeyChat(OpenAIProtocol):
    """A chat model whose key comes from Python; it stands in no setting, file or message."""

    provider: Literal["openai"]
    _key: str = PrivateAttr()

    @classmethod
    def of(cls, key: str, *, base_url: str, model: str) -> Self:
        """Return the settings; raise ValueError for a wrong one."""
        # Messages name the place of the key where else its environment variable stands.
        made = cls(provider="openai", base_url=base_url, model=model, api_key_env="api_key")
        made._key = key
        return made

    def open(self) -> "OpenAIChat":
        """Return a client that sends the key."""
        from rag_pipeline.models.providers.openai_chat import OpenAIChat

        return OpenAIChat(self, self._key)


class OpenAIEmbedding(RemoteEmbedding):
    """`text-embedding-3-*` of OpenAI, or a model of any server that speaks its protocol.

    Of a model that is not known, `dimensions` must say how long its vectors are; with `shorten`
    the server is asked for that length, as OpenAI's always is.
    """

    provider: Literal["openai"]
    model: str = Field(default="text-embedding-3-small", min_length=1)
    api_key_env: str = "OPENAI_API_KEY"
    shorten: bool = False

    def open(self) -> "OpenAIEmbedder":
        """Return the model; raise ConfigError where its dimensions are not known."""
        from rag_pipeline.models.providers.openai_embedding import OpenAIEmbedder

        return OpenAIEmbedder(self)
