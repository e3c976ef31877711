from pathlib import Path

import pytest

from rag_pipeline.calls.costs import ChargedTokens, Price, load_prices, vendor
from rag_pipeline.errors import ConfigError

USUAL = {"input": 2.0, "cached_input": 0.5, "output": 8.0, "batch": 0.5}
TOKENS = ChargedTokens(input=1_000_000, cached=400_000, output=250_000)


@pytest.mark.parametrize(
    ("price", "tokens", "batch", "usd"),
    [
        (USUAL, TOKENS, False, 3.4),  # 0.6 x 2 + 0.4 x 0.5 + 0.25 x 8
        (USUAL, TOKENS, True, 1.7),
        ({"input": 3.0}, ChargedTokens(input=2_000_000, cached=1_000_000), False, 6.0),
        ({"search": 2.0}, ChargedTokens(searches=250), False, 0.5),
    ],
)
def test_a_call_costs_its_tokens_by_kind(price, tokens, batch, usd):
    assert Price(**price).usd(tokens, batch) == pytest.approx(usd)


def test_every_packaged_price_has_a_date_and_the_provider_s_own_page():
    for name, provider in load_prices().providers.items():
        assert provider.source.startswith("https://"), name
        assert provider.hosts and provider.models
        assert provider.date.year >= 2026


def test_a_snapshot_costs_what_its_model_does_unless_it_is_listed():
    prices = load_prices()
    mini = prices.price("openai", "gpt-4o-mini")
    assert mini is not None and (mini.input, mini.output) == (0.15, 0.6)
    assert prices.price("openai", "gpt-4o-mini-2024-07-18") == mini
    old = prices.price("openai", "gpt-4o-2024-05-13")
    assert old is not None and old.input == 5.0


def test_an_unknown_price_is_unknown_and_a_local_model_free():
    prices = load_prices()
    assert prices.price("openai", "gpt-99") is None
    assert prices.price("models.example.com", "gpt-4o-mini") is None
    for name in ("minilm", "localhost:8000", "127.0.0.1:1234", "[::1]:1234", "[::1]"):
        free = prices.price(name, "whatever")
        assert free is not None and free.usd(ChargedTokens(10**9, 0, 10**9)) == 0.0


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        (None, "openai"),
        ("https://api.openai.com/v1", "openai"),
        ("https://models.example.com/v1", "models.example.com"),
        ("http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
    ],
)
def test_another_server_has_prices_of_its_own(base_url: str | None, name: str):
    assert vendor("openai", base_url) == name


def test_a_user_s_file_goes_before_the_packaged_one(tmp_path: Path):
    own = tmp_path / "prices.yaml"
    own.write_text(
        "providers:\n"
        "  openai: {date: 2026-11-01, models: {gpt-4o-mini: {input: 9}}}\n"
        "  models.example.com: {date: 2026-11-01, models: {'*': {input: 1, output: 2}}}\n"
    )
    prices = load_prices(own)
    mini, other = prices.price("openai", "gpt-4o-mini"), prices.price("openai", "gpt-4o")
    assert mini is not None and mini.input == 9
    assert other is not None and other.input == 2.5
    theirs = prices.price("models.example.com", "anything")
    assert theirs is not None and theirs.output == 2


def test_mistakes_in_a_prices_file_are_named(tmp_path: Path):
    own = tmp_path / "prices.yaml"
    own.write_text("providers: {openai: {date: 2026-11-01, models: {gpt-4o: {input: cheap}}}}")
    with pytest.raises(ConfigError, match=r"prices\.yaml: providers\.openai.*input: 'cheap'"):
        load_prices(own)
    with pytest.raises(ConfigError, match=r"cannot read .*none\.yaml"):
        load_prices(tmp_path / "none.yaml")
