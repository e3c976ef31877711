"""Read the prices of models from the packaged file. Prices in the user's own file override them."""

import datetime
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError

from rag_pipeline.calls.hosts import is_loopback
from rag_pipeline.config import Settings
from rag_pipeline.config.prices import ChargedTokens as ChargedTokens
from rag_pipeline.config.prices import Price as Price
from rag_pipeline.errors import ConfigError
from rag_pipeline.imports import CHATS, EMBEDDINGS, RERANKERS, load_group, load_yaml, warn_once

_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")
FREE = Price()


class _Provider(Settings):
    date: datetime.date
    source: str = ""
    hosts: tuple[str, ...] = ()
    models: dict[str, Price]

    def over(self, other: "_Provider | None") -> "_Provider":
        """Return these prices, and the prices of further models in `other`."""
        return self.model_copy(update={"models": (other.models if other else {}) | self.models})


class Prices(Settings):
    """The prices of models, by provider. `local` providers run on this machine."""

    local: tuple[str, ...] = ()
    providers: dict[str, _Provider] = Field(default={})

    def price(self, provider: str, model: str) -> Price | None:
        """Return a model's price, or None if it is unknown.

        An unlisted snapshot with a date (`gpt-4o-mini-2024-07-18`) has the price of its model. `*`
        is the price of all models of a provider. Unlisted models on this machine are free.
        """
        listed = self.providers.get(provider)
        if listed is not None:
            for name in (model, _SNAPSHOT.sub("", model), "*"):
                if name in listed.models:
                    return listed.models[name]
        host = urlsplit(f"//{provider}").hostname or provider
        return FREE if provider in self.local or is_loopback(host) else None

    def including(self, own: Mapping[tuple[str, str], Price]) -> "Prices":
        """Return these prices, overridden by the prices in `own` (by provider and model)."""
        providers = dict(self.providers)
        for (name, model), price in own.items():
            known = providers.get(name) or _Provider(date=datetime.date.min, models={})
            providers[name] = known.model_copy(update={"models": {**known.models, model: price}})
        return self.model_copy(update={"providers": providers})


def vendor(provider: str, base_url: str | None) -> str:
    """Return the provider's name in the list of prices, or the host of another server.

    Another server may charge another price for a model of the same name.
    """
    if base_url is None:
        return provider
    parts = urlsplit(base_url)
    host = parts.hostname or base_url
    for name, known in _packaged().providers.items():
        if host in known.hosts:
            return name
    named = f"[{host}]" if ":" in host else host
    return f"{named}:{parts.port}" if parts.port else named


def load_prices(own: Path | None = None) -> Prices:
    """Return the packaged prices, overridden by the prices in the user's `own` file.

    Raise ConfigError, with the file and the reason, if `own` is unreadable or invalid.
    """
    packaged = _packaged()
    if own is None:
        return packaged
    try:
        text = own.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prices: cannot read {own}: {error}") from None
    mine = _parse(text, own)
    merged = {name: own.over(packaged.providers.get(name)) for name, own in mine.providers.items()}
    return Prices(local=(*packaged.local, *mine.local), providers=packaged.providers | merged)


@cache
def _packaged() -> Prices:
    file = Path(__file__).with_name("prices.yaml")
    ours = _parse(file.read_text(encoding="utf-8"), Path("prices.yaml"))
    plugins: dict[str, _Provider] = {}
    for group in (EMBEDDINGS, CHATS, RERANKERS):
        for name, settings in load_group(group).items():
            if getattr(settings, "prices", None) and name not in ours.providers:
                try:
                    more = _Provider.model_validate(settings.prices)
                except ValidationError as error:
                    warn_once(f"{settings.__name__}.prices: {error}")
                    continue
                plugins[name] = more.over(plugins.get(name))
    return ours.model_copy(update={"providers": {**ours.providers, **plugins}})


def _parse(text: str, file: Path) -> Prices:
    try:
        return Prices.model_validate(load_yaml(text) or {})
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"{file}: {place}: {first['input']!r}: {first['msg']}") from None
