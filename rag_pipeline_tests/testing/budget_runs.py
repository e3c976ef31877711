"""Runs under a budget against a server that bills: by how much was the budget passed?"""

import random
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rag_pipeline.calls import CallCache
from rag_pipeline.calls.costs import ChargedTokens, Ledger, Price, Prices, charging
from rag_pipeline.errors import BudgetError, CallsStoppedError
from rag_pipeline.models.chat import Prompt, ask
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.databases import opened
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_calls import chat
from rag_pipeline_tests.testing.model_faults import CUT, CUT_REPLY, Chance, Failure, Fault, garbled
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import serving

MOST_OUTPUT = 400


def prompts_of(shard: int, count: int) -> list[Prompt]:
    return [Prompt("x " * 20 + f"{shard}-{n}") for n in range(count)]


@dataclass(frozen=True)
class Outcome:
    """What a provider billed in USD, of which one call the most, and what it was allowed to."""

    billed: float
    dearest_call: float
    budget: float
    stopped: bool

    @property
    def is_kept(self) -> bool:
        return self.billed <= self.budget + self.dearest_call


def run_under_budget(place: str | Path, seed: int, *, killed: bool = False) -> Outcome:
    """Ask prompts in threads, and in a child that is killed, with chance prices and budget."""
    chance = random.Random(seed)
    price = Price(
        input=chance.uniform(0, 20), output=chance.uniform(0.1, 60), batch=chance.uniform(0.3, 1)
    )
    lengths, accidents = Chance(seed), Chance(seed + 1)
    most = chance.choice([10, 150, MOST_OUTPUT])
    is_batch = chance.random() < 0.4
    concurrency = chance.randint(1, 64)
    shards = chance.randint(1, 4)
    faulty = chance.random() < 0.3
    count = chance.randint(4, 24)
    bills: list[float] = []
    lock = threading.Lock()

    def answer(body: Body) -> str:
        asked = sum(len(m["content"].split()) for m in body["messages"])
        with lock:
            said = lengths.of("", body).randint(1, most)
            bills.append(price.usd(ChargedTokens(asked, output=said), is_batch))
        return "w " * said

    def faults(path: str, body: Body) -> Failure:
        drawn = accidents.of(path, body)
        if not faulty or "completions" not in path or drawn.random() > 0.2:
            return None
        ways: list[Failure] = (
            [Fault(500), CUT] if path.startswith("batch/") else [Fault(500), CUT_REPLY, garbled]
        )
        return drawn.choice(ways)

    with serving(answer, faults, Batches(looks=1)) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        listed = {host: {"date": "2026-11-21", "models": {"*": price.model_dump()}}}
        settings = chat(
            server.url, max_concurrency=concurrency, batch=is_batch, max_output_tokens=MOST_OUTPUT
        )
        whole = shards * count * price.usd(ChargedTokens(20, output=most // 2), is_batch)
        budget = whole * chance.choice([0.01, 0.2, 0.7, 1.5])
        prices = Prices.model_validate({"providers": listed})
        ledger = Ledger(opened(place), "tiny", prices, budget)
        cache = CallCache(opened(place))
        stopped: list[Exception] = []

        def shard(number: int) -> None:
            try:
                with charging(ledger):
                    ask(prompts_of(number, count), settings, cache)
            except (BudgetError, CallsStoppedError) as error:
                stopped.append(error)

        if killed:
            _kill_child(place, prices, budget, settings, count, bills, chance.randint(0, count))
        threads = [threading.Thread(target=shard, args=[n]) for n in range(shards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return Outcome(sum(bills), max(bills, default=0.0), budget, bool(stopped))


def _kill_child(
    place: str | Path,
    prices: Prices,
    budget: float,
    settings: ChatModel,
    count: int,
    bills: list[float],
    after: int,
) -> None:
    """Let another process ask the first shard's prompts; kill it after so many calls."""
    code = "from rag_pipeline_tests.testing.budget_runs import ask_alone; ask_alone()"
    asked = [str(place), prices.model_dump_json(), str(budget), settings.model_dump_json()]
    child = Forked(code, *asked, count)
    while child.poll() is None and len(bills) < after:
        time.sleep(0.001)
    child.kill()
    child.wait()


def ask_alone() -> None:
    """Ask the first shard's prompts, as this process is told to by its arguments."""
    place, prices, limit, model, count = sys.argv[1:]
    ledger = Ledger(opened(place), "tiny", Prices.model_validate_json(prices), float(limit))
    with charging(ledger), suppress(BudgetError):
        settings = ChatModel.model_validate_json(model)
        ask(prompts_of(0, int(count)), settings, CallCache(opened(place)))
