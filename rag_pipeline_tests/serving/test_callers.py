import asyncio
import base64
import hashlib
import json
import threading
import time
from typing import Any

import httpx
import pytest
import yaml
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from rag_pipeline.datamodels import Caller
from rag_pipeline.errors import ConfigError
from rag_pipeline.serving.callers import Callers
from rag_pipeline.serving.settings import read_token
from rag_pipeline_tests.testing.web import web

KEYS: dict[str, Any] = {
    "RS256": RSAKey.generate_key(2048, parameters={"kid": "one"}),
    "ES256": ECKey.generate_key("P-256", parameters={"kid": "two"}),
    "Ed25519": OKPKey.generate_key("Ed25519", parameters={"kid": "three"}),
}
OTHER = RSAKey.generate_key(2048, parameters={"kid": "one"})
SECRET = "a secret that a proxy shares with us"
CLAIMS = {"aud": "rag", "iss": "https://id.example", "groups": ["hr"], "tenants": "tiny, other"}
HR = Caller(frozenset({"hr"}), frozenset({"tiny", "other"}))


def token_of(key=KEYS["RS256"], algorithm="RS256", lasting=60, kid=True, **changes):
    claims = {**CLAIMS, "exp": int(time.time()) + lasting, **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    header = {"alg": algorithm, **({"kid": key.kid} if kid and key.kid else {})}
    return jwt.encode(header, claims, key, algorithms=[algorithm])


def write(folder, **content):
    file = folder / "callers.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def signer(folder, **changes):
    """Return the callers of one signer with the public keys in a file."""
    public = KeySet([*KEYS.values()]).as_dict(private=False)
    (folder / "keys.json").write_text(json.dumps(public))
    settings = {
        "keys": "keys.json",
        "audience": "rag",
        "issuer": "https://id.example",
        "labels": "groups",
        "corpora": "tenants",
        **changes,
    }
    kept = {name: value for name, value in settings.items() if value is not None}
    return Callers(write(folder, signers=[kept]))


def caller_of(callers, token, header="authorization"):
    value = f"Bearer {token}" if header == "authorization" else token
    return asyncio.run(callers.of({header: value}))


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_token_of_each_kind_of_key_names_its_labels(tmp_path, algorithm):
    token = token_of(KEYS[algorithm], algorithm)
    assert caller_of(signer(tmp_path), token) == HR


@pytest.mark.parametrize(
    "token",
    [
        token_of(lasting=-60),
        token_of(exp=None),
        token_of(exp="soon"),
        token_of(aud="another"),
        token_of(aud=None),
        token_of(aud=["another"]),
        token_of(iss="https://evil.example"),
        token_of(iss=None),
        token_of(nbf=int(time.time()) + 3600),
        token_of(OTHER),
        token_of()[:-5],
        f"{token_of()}.",
        "a.b.c",
        "no-token-at-all",
        "e30.e30.",
    ],
)
def test_a_token_that_is_not_right_in_all_is_refused(tmp_path, token, caplog):
    assert caller_of(signer(tmp_path), token) is None
    assert token not in caplog.text


def test_unsigned_and_confused_tokens_are_refused(tmp_path):
    callers = signer(tmp_path)
    _, body, _ = token_of().split(".")
    none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0"
    assert caller_of(callers, f"{none}.{body}.") is None
    # The public key as the secret of an HMAC.
    public = KEYS["RS256"].as_dict(private=False)
    secret = OctKey.import_key(json.dumps(public), {"kid": "one"})
    assert caller_of(callers, token_of(secret, "HS256")) is None


def test_a_deep_head_of_a_token_is_refused_without_a_request(tmp_path):
    head = base64.urlsafe_b64encode(b"[" * 45_000).decode()  # fits into the headers of a request
    callers = signer(tmp_path, keys="http://127.0.0.1:9/jwks.json")
    assert caller_of(callers, f"{head}.e30.e30") is None


def test_missing_and_unreadable_claims_give_no_label(tmp_path):
    callers = signer(tmp_path)
    for groups in (None, 7, {"hr": True}, [["hr"]], "", '["hr"'):
        assert caller_of(callers, token_of(groups=groups)) == Caller(frozenset(), HR.corpora)
    assert caller_of(callers, token_of(tenants=None)) == Caller(HR.labels, frozenset())
    assert caller_of(signer(tmp_path, corpora=None), token_of()) == Caller(HR.labels, None)
    assert caller_of(callers, token_of(aud=["rag", "more"], groups="hr, x")).labels == {"hr", "x"}
    everything = caller_of(callers, token_of(groups="*"))
    assert everything.labels is not None
    assert not everything.sees(frozenset({"hr"}))


def test_one_key_may_be_a_pem_file(tmp_path):
    for algorithm, key in KEYS.items():
        (tmp_path / "key.pem").write_bytes(key.as_pem(private=False))
        callers = signer(tmp_path, keys="key.pem")
        assert caller_of(callers, token_of(key, algorithm, kid=False)) == HR


def test_a_proxy_signs_with_a_shared_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("PROXY_SECRET", SECRET)
    more = {"keys": None, "secret_env": "PROXY_SECRET", "header": "X-Signed-Caller"}
    callers = signer(tmp_path, **more)
    key = OctKey.import_key(SECRET)
    signed = token_of(key, "HS256")
    assert caller_of(callers, signed, "x-signed-caller") == HR
    assert caller_of(callers, signed) is None
    wrong = token_of(OctKey.import_key(SECRET[::-1]), "HS256")
    assert caller_of(callers, wrong, "x-signed-caller") is None
    monkeypatch.setenv("PROXY_SECRET", SECRET[:31])
    with pytest.raises(ConfigError, match="PROXY_SECRET: use at least 32") as raised:
        signer(tmp_path, **more)
    assert SECRET[:31] not in str(raised.value)


def test_keys_of_an_address_are_read_again_but_not_for_each_unknown_key(tmp_path):
    served = [KeySet([KEYS["RS256"]]).as_dict(private=False)]
    with web(lambda *asked: (200, {}, served[-1])) as site:
        callers = signer(tmp_path, keys=f"{site.url}/jwks.json")
        (verifier,) = callers._signers
        assert caller_of(callers, token_of()) == HR
        assert caller_of(callers, token_of()) == HR
        assert len(site.asked) == 1
        new = token_of(KEYS["ES256"], "ES256")
        served.append(KeySet([KEYS["ES256"]]).as_dict(private=False))
        for _ in range(3):
            assert caller_of(callers, new) is None
        assert len(site.asked) == 1
        verifier._read_at -= 31
        assert caller_of(callers, new) == HR
        assert caller_of(callers, token_of()) is None
        assert len(site.asked) == 2
        verifier._read_at -= 301
        assert caller_of(callers, new) == HR
        assert len(site.asked) == 3
    verifier._read_at -= 301
    assert caller_of(callers, new) == HR  # the address is gone, its last keys are kept


def test_a_known_key_does_not_wait_for_the_look_up_of_an_unknown_one(tmp_path):
    asked, go_on = threading.Event(), threading.Event()
    served = KeySet([KEYS["RS256"]]).as_dict(private=False)

    def reply(*_):
        if site.asked[1:]:
            asked.set()
            go_on.wait(60)
        return 200, {}, served

    async def both():
        unknown = {"authorization": f"Bearer {token_of(KEYS['ES256'], 'ES256')}"}
        waiting = asyncio.create_task(callers.of(unknown))
        await asyncio.to_thread(asked.wait, 60)
        known = await callers.of({"authorization": f"Bearer {token_of()}"})
        go_on.set()
        return known, await waiting

    with web(reply) as site:
        callers = signer(tmp_path, keys=f"{site.url}/jwks.json")
        assert caller_of(callers, token_of()) == HR
        callers._signers[0]._read_at -= 31
        assert asyncio.run(asyncio.wait_for(both(), 60)) == (HR, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"tokens": [{"sha256": "abc", "labels": []}]}, "tokens.0.sha256"),
        ({"tokens": [{"sha256": "0" * 64}]}, "tokens.0.labels"),
        ({"tokens": [{"sha256": "0" * 64, "labels": "hr"}]}, "tokens.0.labels"),
        ({"signers": [{"keys": "k", "labels": "groups"}]}, "signers.0.audience"),
        ({"signers": [{"labels": "groups", "audience": "rag"}]}, "keys.*secret_env"),
        ({"signers": [{"keys": "none", "labels": "g", "audience": "r"}]}, "none"),
        (
            {"signers": [{"keys": "http://id.example/jwks", "labels": "g", "audience": "r"}]},
            "not an https address",
        ),
        (
            {"signers": [{"secret_env": "Kx9-secret", "labels": "g", "audience": "r"}]},
            "name of an environment variable",
        ),
        ({"readers": []}, "readers"),
    ],
)
def test_an_unclear_file_is_refused(tmp_path, content, message):
    with pytest.raises(ConfigError, match=message) as told:
        Callers(write(tmp_path, **content))
    assert "Kx9-secret" not in str(told.value)


def test_a_file_that_holds_no_key_is_refused(tmp_path):
    (tmp_path / "keys.json").write_text('{"keys": [{"kty": "unknown"}]}')
    content = {"keys": "keys.json", "labels": "groups", "audience": "rag"}
    with pytest.raises(ConfigError, match="no usable key"):
        Callers(write(tmp_path, signers=[content]))
    (tmp_path / "keys.json").write_text("no key")
    with pytest.raises(ConfigError, match="holds no public key"):
        Callers(write(tmp_path, signers=[content]))


def test_a_file_of_callers_allows_addresses_beyond_loopback(tmp_path, monkeypatch):
    monkeypatch.delenv("RAG_TOKEN", raising=False)
    assert read_token("RAG_TOKEN", "0.0.0.0", tmp_path / "callers.yaml") is None
    with pytest.raises(ConfigError, match="add --callers"):
        read_token("RAG_TOKEN", "0.0.0.0")


def test_a_server_asks_the_table_then_the_signers_then_its_own_token(
    serving, tmp_path, monkeypatch
):
    monkeypatch.setenv("PROXY_SECRET", SECRET)
    signed = {"secret_env": "PROXY_SECRET", "audience": "rag", "labels": "groups", "corpora": "t"}
    digest = hashlib.sha256(b"a token of the table").hexdigest()
    content = {
        "tokens": [{"sha256": digest, "labels": "*", "corpora": ["another"]}],
        "signers": [{**signed, "header": "X-Signed-Caller"}],
    }
    server = serving(callers=write(tmp_path, **content), token="the token of the server")
    key = OctKey.import_key(SECRET)

    def datasets(*headers):
        reply = httpx.get(f"{server.url}/v1/corpora", headers=[*headers])
        return reply.status_code, len(reply.json().get("corpora", ()))

    def bearer(token):
        return "Authorization", f"Bearer {token}"

    good = "X-Signed-Caller", token_of(key, "HS256", t=["tiny"])
    bad = "X-Signed-Caller", token_of(key, "HS256", lasting=-60)
    assert datasets() == datasets(bearer("none")) == (401, 0)
    assert datasets(bearer("a token of the table")) == (200, 0)
    assert datasets(bearer("the token of the server")) == (200, 1)
    assert datasets(good) == (200, 1)
    assert datasets(good, bearer("a token of the table")) == (200, 1)
    assert datasets(bad, bearer("the token of the server")) == (401, 0)
    assert datasets(bad, bearer("a token of the table")) == (401, 0)
    assert datasets(good, good) == (400, 0)
