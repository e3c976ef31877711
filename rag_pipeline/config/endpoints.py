"""Keep the cached answers and tables of models that move to another address.

Call keys and fingerprints contain a model's address, because a name such as `default` is not
unique. The store records each model's first address. The first address becomes the
`cache_identity` of a model that has moved.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.settings import RemoteModel, Settings, fingerprint

_SECTIONS = ("chats", "embeddings", "rerankers")
SettingsT = TypeVar("SettingsT", bound=Settings)


def remote_models(config: CorpusConfig) -> Iterator[tuple[str, str, RemoteModel]]:
    """Yield section, name and settings of each model behind a network."""
    for section in _SECTIONS:
        for name, settings in config.section(section).items():
            if isinstance(settings, RemoteModel):
                yield section, name, settings


def endpoints_of(config: CorpusConfig) -> dict[str, Any]:
    """Return each variant's model and identity address, the `first` addresses of later runs."""
    return {
        f"{section}.{name}": {"model": _name(settings), "address": settings.identity_url}
        for section, name, settings in remote_models(config)
    }


def with_first_endpoints(config: CorpusConfig, first: Mapping[str, Any]) -> CorpusConfig:
    """Return the settings with each model's first address as its `cache_identity`.

    A configured `cache_identity` is not changed. If a variant now names a different model, it gets
    no `cache_identity`.
    """
    changed: dict[str, dict[str, Settings]] = {}
    for section, name, settings in remote_models(config):
        known = first.get(f"{section}.{name}")
        if settings.cache_identity is None and known and known["model"] == _name(settings):
            pinned = settings.model_copy(update={"cache_identity": known["address"] or ""})
            changed.setdefault(section, dict(config.section(section)))[name] = pinned
    return config.model_copy(update=changed) if changed else config


def moved_models(config: CorpusConfig) -> Iterator[str]:
    """Yield a message for each model whose address differs from its identity address."""
    for section, name, settings in remote_models(config):
        if settings.identity_url != settings.base_url:
            yield (
                f"{section}.{name}: calls go to {settings.base_url or 'the vendor'}, and answers "
                f"of {settings.identity_url or 'the vendor'} are reused; if the model is "
                f"different, set cache_identity to a new name"
            )


def at_current_endpoint(config: CorpusConfig, settings: SettingsT) -> SettingsT:
    """Return the corpus file's settings of a release's model, with the current address.

    If the corpus file lacks the model, return `settings`.
    """
    if isinstance(settings, RemoteModel):
        same = fingerprint(settings)
        for _, _, now in remote_models(config):
            if type(now) is type(settings) and fingerprint(now) == same:
                return now
    return settings


def provider_of(settings: object) -> str:
    """Return a model's vendor: its `provider`, or a reranker's `method`."""
    return str(getattr(settings, "provider", None) or getattr(settings, "method", ""))


def model_of(settings: Settings) -> str:
    """Return the name that the vendor gives a model, or the vendor's name if there is none."""
    return str(getattr(settings, "model", "")) or provider_of(settings)


def _name(settings: RemoteModel) -> str:
    return f"{provider_of(settings)} {model_of(settings)}"
