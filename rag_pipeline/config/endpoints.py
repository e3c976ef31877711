"""Models that move: the address under which a store first met a model names it ever after.

The address stands in the keys of kept answers and in fingerprints, as one model's name says little
(`default`, `model`). A server that moves is the same model at another address: it keeps the first
one as its name (`cache_identity`), so that nothing is asked or built again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.fingerprints import fingerprint
from rag_pipeline.config.settings import RemoteModel, Settings

_SECTIONS = ("chats", "embeddings", "rerankers")
SettingsT = TypeVar("SettingsT", bound=Settings)


def remote_models(config: CorpusConfig) -> Iterator[tuple[str, str, RemoteModel]]:
    """Yield the models behind a network: section, name and settings."""
    for section in _SECTIONS:
        for name, settings in config.section(section).items():
            if isinstance(settings, RemoteModel):
                yield section, name, settings


def endpoints_of(config: CorpusConfig) -> dict[str, Any]:
    """Return under which address each model is known, for `with_first_endpoints` of a later run."""
    return {
        f"{section}.{name}": {"model": _name(settings), "address": settings.identity_url}
        for section, name, settings in remote_models(config)
    }


def with_first_endpoints(config: CorpusConfig, first: Mapping[str, Any]) -> CorpusConfig:
    """Return the settings with each model known by its first address, where it has none of its own.

    A variant that names another model now is new.
    """
    changed: dict[str, dict[str, Settings]] = {}
    for section, name, settings in remote_models(config):
        known = first.get(f"{section}.{name}")
        if settings.cache_identity is None and known and known["model"] == _name(settings):
            pinned = settings.model_copy(update={"cache_identity": known["address"] or ""})
            changed.setdefault(section, dict(config.section(section)))[name] = pinned
    return config.model_copy(update=changed) if changed else config


def moved_models(config: CorpusConfig) -> Iterator[str]:
    """Yield a line for each model that is asked elsewhere than where it was first."""
    for section, name, settings in remote_models(config):
        if settings.identity_url != settings.base_url:
            yield (
                f"{section}.{name} is called at {settings.base_url or 'its vendor'} and keeps the "
                f"answers of {settings.identity_url or 'its vendor'}; if it is another model, set "
                f"cache_identity to a name of its own"
            )


def at_current_endpoint(config: CorpusConfig, settings: SettingsT) -> SettingsT:
    """Return the variant of a file that is the same model, as it is called now.

    What a release was made with is asked at today's address. Without such a variant, `settings`.
    """
    if isinstance(settings, RemoteModel):
        same = fingerprint(settings)
        for _, _, now in remote_models(config):
            if type(now) is type(settings) and fingerprint(now) == same:
                return now
    return settings


def provider_of(settings: Settings) -> str:
    """Return a model's vendor: its `provider`, or of a reranker its `method`."""
    return str(getattr(settings, "provider", None) or getattr(settings, "method", ""))


def model_of(settings: Settings) -> str:
    """Return a model's name at its vendor."""
    return str(getattr(settings, "model", "")) or provider_of(settings)


def _name(settings: RemoteModel) -> str:
    return f"{provider_of(settings)} {model_of(settings)}"
