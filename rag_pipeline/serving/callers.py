"""Identify callers by a table of tokens, or by signed tokens of an identity provider or proxy.

The operator's file contains hashes of tokens and names of environment variables, but no secrets.
"""

import asyncio
import base64
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import httpx
import yaml
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from pydantic import Field, StringConstraints, ValidationError, model_validator

from rag_pipeline.assistant.expansion.sources import bounded_json
from rag_pipeline.calls.hosts import is_loopback
from rag_pipeline.config import Settings
from rag_pipeline.config.access import Label, read_labels
from rag_pipeline.config.settings import Name, Variable
from rag_pipeline.datamodels import Caller
from rag_pipeline.errors import ConfigError, ProviderError, first_problem

_log = logging.getLogger("rag_pipeline.serving")
_BY_KEY = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 Ed25519 EdDSA".split()
_BY_SECRET = ["HS256", "HS384", "HS512"]
_WRONG = (JoseError, ValueError, TypeError, LookupError, RecursionError)
"""Errors that a wrong token or key can raise."""
_LEAST_SECRET = 32
_LEEWAY_SECONDS = 30
"""Accepted difference in seconds between the clocks of two machines."""
_FRESH_SECONDS = 300.0
"""Maximum age in seconds of keys from an address before the keys are read again."""
_RETRY_SECONDS = 30.0
"""Minimum seconds between two reads of an address, also after a token with an unknown key."""
_FETCH_SECONDS = 5.0
_MOST_BYTES = 1_000_000


class TableToken(Settings):
    """A bearer token with its labels and the corpora that it may name.

    `sha256` is the token's hash in hexadecimal digits. The labels `"*"` mean all labels. If
    `corpora` is None, the token may name all corpora. `requests_per_minute` limits the requests of
    all addresses with the token. None means no limit.
    """

    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    labels: Literal["*"] | tuple[Label, ...]
    corpora: tuple[Name, ...] | None = None
    requests_per_minute: int | None = Field(default=None, ge=1)

    @property
    def caller(self) -> Caller:
        """Return the caller with this token."""
        labels = None if self.labels == "*" else frozenset(self.labels)
        return Caller(labels, None if self.corpora is None else frozenset(self.corpora))


class Signer(Settings):
    """The settings to verify JSON Web Tokens.

    - `header`: The header with the token, by default `authorization` with a `Bearer` token.
    - `keys`: A file (JWK, JWKS or PEM), or the https address of a JWKS.
    - `secret_env`: Instead of `keys`, the environment variable with a secret that a proxy shares.
      The secret has at least 32 characters.
    - `audience`, `issuer`: Required values of a token. None accepts any issuer.
    - `labels`: The claim with the caller's labels, as a list or comma-separated text. A caller
      without the claim has no labels.
    - `corpora`: The claim with the corpora that the caller may name. None means all corpora.

    A token must also have an expiry in the future.
    """

    header: str = "authorization"
    keys: str | None = None
    secret_env: Variable | None = None
    audience: str = Field(min_length=1)
    issuer: str | None = None
    labels: str = Field(min_length=1)
    corpora: str | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if (self.keys is None) == (self.secret_env is None):
            raise ValueError("name either `keys` or `secret_env`")
        return self


class CallersFile(Settings):
    """The content of a file of callers."""

    tokens: tuple[TableToken, ...] = ()
    signers: tuple[Signer, ...] = ()


class Callers:
    """The callers of a file. The headers of a request identify a caller."""

    def __init__(self, file: Path) -> None:
        """Read the file. Raise ConfigError if the file is invalid or names an unusable key."""
        try:
            content = CallersFile.model_validate(yaml.safe_load(file.read_text("utf-8")))
            self._tokens = {one.sha256: one for one in content.tokens}
            self._signers = [_Verifier(one, file.parent) for one in content.signers]
        except ValidationError as error:
            raise ConfigError(f"--callers {file}: {first_problem(error)}") from None
        except (OSError, ValueError, yaml.YAMLError, JoseError) as error:
            raise ConfigError(f"--callers {file}: {error}") from None
        self.proxy_headers = {signer.header for signer in self._signers} - {"authorization"}
        self.issuers = [
            one.issuer
            for one in content.signers
            if one.issuer and "://" in one.issuer and one.header.lower() == "authorization"
        ]
        """The addresses of the authorization servers that issue bearer tokens."""

    async def of(self, headers: Mapping[str, str]) -> Caller | None:
        """Return the caller, or None without a valid token.

        If a request has a proxy's header, only this header counts. `headers` has names in lower
        case.
        """
        given = {name: headers[name] for name in self.proxy_headers & headers.keys()}
        if not given and (token := bearer_token(headers)):
            if (known := self._known(headers)) is not None:
                return known.caller
            given = {"authorization": token}
        for signer in self._signers:
            if signer.header in given:
                caller = await signer.caller(given[signer.header])
                if caller is not None:
                    return caller
        return None

    def _known(self, headers: Mapping[str, str]) -> TableToken | None:
        return self._tokens.get(hashlib.sha256(bearer_token(headers).encode()).hexdigest())

    def limit_of(self, headers: Mapping[str, str]) -> tuple[str, int] | None:
        """Return the hash and the requests per minute of a token in the table, or None."""
        known = self._known(headers)
        if known is None or known.requests_per_minute is None:
            return None
        return known.sha256, known.requests_per_minute


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token of the header `Authorization: Bearer …`, or ""."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


class _Verifier:
    def __init__(self, settings: Signer, folder: Path) -> None:
        self.header = settings.header.lower()
        self._settings = settings
        self._address, self._keys = "", KeySet([])
        self._read_at: float | None = None
        self._lock = asyncio.Lock()
        self._algorithms = _BY_KEY if settings.secret_env is None else _BY_SECRET
        expected: dict[str, Any] = {"aud": {"essential": True, "value": settings.audience}}
        if settings.issuer is not None:
            expected["iss"] = {"essential": True, "value": settings.issuer}
        self._claims = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_SECONDS, exp={"essential": True}, **expected
        )
        if settings.secret_env is not None:
            secret = os.environ.get(settings.secret_env, "")
            if len(secret) < _LEAST_SECRET:
                raise ValueError(f"{settings.secret_env}: use at least {_LEAST_SECRET} characters")
            self._keys = KeySet([JWKRegistry.import_key(secret, "oct")])
        elif settings.keys and "://" in settings.keys:
            parts = urlsplit(settings.keys)
            if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
                raise ValueError(f"keys: {settings.keys!r} is not an https address")
            self._address = settings.keys
        else:
            self._keys = _keys_of(folder / str(settings.keys))

    async def caller(self, token: str) -> Caller | None:
        """Return the caller of a token, or None if the token is not valid."""
        settings = self._settings
        try:
            keys = await self._current(token) if self._address else self._keys
            claims = jwt.decode(token, keys, algorithms=self._algorithms).claims
            self._claims.validate(claims)
        except (*_WRONG, ProviderError) as error:
            _log.warning(json.dumps({"refused": settings.header, "error": str(error)[:200]}))
            return None
        corpora = read_labels(claims.get(settings.corpora)) if settings.corpora else None
        return Caller(read_labels(claims.get(settings.labels)), corpora)

    async def _current(self, token: str) -> KeySet:
        """Return the keys of the address. Read them again if they are old or lack the key."""
        wanted = _key_id(token)

        def is_old(seconds: float) -> bool:
            return self._read_at is None or time.monotonic() - self._read_at > seconds

        def is_known() -> bool:
            return wanted in {key.kid for key in self._keys.keys}

        if is_known() and not is_old(_FRESH_SECONDS):
            return self._keys  # a token with an unknown key may hold the lock
        async with self._lock:
            if is_old(_FRESH_SECONDS if is_known() else _RETRY_SECONDS):
                self._read_at = time.monotonic()
                try:
                    self._keys = await asyncio.to_thread(_fetched, self._address)
                except (ProviderError, httpx.HTTPError, JoseError, ValueError) as error:
                    _log.warning(json.dumps({"keys": self._address, "error": str(error)[:200]}))
            return self._keys


def _fetched(address: str) -> KeySet:
    stream = httpx.stream("GET", address, timeout=_FETCH_SECONDS)
    made = bounded_json(address, stream, _FETCH_SECONDS, _MOST_BYTES)
    return _key_set(made)


def _key_id(token: str) -> Any:
    head = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"]


def _keys_of(file: Path) -> KeySet:
    text = file.read_text("utf-8")
    if text.lstrip().startswith("{"):
        return _key_set(json.loads(text))
    for kind in ("RSA", "EC", "OKP"):
        try:
            return KeySet([JWKRegistry.import_key(text, kind)])
        except _WRONG:
            continue
    raise ValueError(f"keys: {file} holds no public key (JWK, JWKS or PEM)")


def _key_set(record: Any) -> KeySet:
    """Return the usable keys of a JWK or JWKS. Raise ValueError without a usable key."""
    made: list[Key] = []
    for one in record.get("keys", [record]) if isinstance(record, dict) else []:
        try:
            made.append(JWKRegistry.import_key(one))
        except _WRONG:
            continue
    if not made:
        raise ValueError("keys: no usable key")
    return KeySet(made)
