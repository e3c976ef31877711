import json
from typing import Any

import pytest

from rag_pipeline.calls.costs import record
from rag_pipeline.cli.costs import show_costs
from rag_pipeline.config import Key, load_config
from rag_pipeline.errors import InputError
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus


def spend(file: Any) -> None:
    workspace = Workspace(load_config(file))
    with workspace.charging("contextualized_chunks", Key("recursive_150", "structural")) as costs:
        record("chat", "openai", "gpt-4o-mini", input_tokens=4_000_000, cached_tokens=2_000_000)
        record("chat", "openai", "gpt-99", input_tokens=5)
    assert (costs.calls, costs.unpriced) == (2, 1)


def test_costs_are_shown_with_what_is_unknown_and_what_is_left(tmp_path, capsys):
    file = write_corpus(tmp_path, budget_usd=1.0)
    show_costs(file, "asset", as_json=False)
    assert "no call has been charged" in capsys.readouterr().out
    spend(file)
    show_costs(file, "model", as_json=False)
    out = capsys.readouterr().out
    # 2 M at 0.15 and 2 M at 0.075
    (known,) = (line for line in out.splitlines() if "gpt-4o-mini" in line)
    assert known.split() == ["openai", "gpt-4o-mini", "1", "4,000,000", "2,000,000", "0", "0.4500"]
    (unknown,) = (line for line in out.splitlines() if "gpt-99" in line)
    assert unknown.split()[-1] == "unknown"
    assert "≥ 0.4500" in out
    assert "1 calls have no known price" in out
    assert "0.5500 USD are left" in out


def test_costs_as_json(tmp_path, capsys):
    file = write_corpus(tmp_path)
    spend(file)
    show_costs(file, "configuration", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["groups"]["default"]["usd"] == pytest.approx(0.45)
    assert found["total"]["unpriced"] == 1
    with pytest.raises(InputError, match="--by 'week' is not one of: asset, model"):
        show_costs(file, "week", as_json=True)
