"""Replies that are cut: never kept as whole ones, asked for again with more room once."""

from functools import partial
from typing import Any

import pytest

from rag_pipeline.calls import CallCache
from rag_pipeline.config.models import Completion
from rag_pipeline.datamodels import Usage
from rag_pipeline.models.chat import Prompt, Reply, ask
from rag_pipeline.models.replies import is_cut, read_reply
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_calls import asked, chat
from rag_pipeline_tests.testing.model_faults import Failure, Fault, finished, none
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import serving

SCHEMA = {"type": "object", "properties": {"level": {"enum": ["low"]}}, "required": ["level"]}


model = partial(chat, max_output_tokens=10)


def rooms(server: Any) -> list[int]:
    return [body["max_completion_tokens"] for body in server.bodies]


def silent(reply: Body) -> Any:
    """Return the reply of a model that used all its tokens before it said anything."""
    choice = {**reply["choices"][0], "finish_reason": "length"}
    return {**reply, "choices": [{**choice, "message": {"role": "assistant", "content": None}}]}


def cut_below(tokens: int, reason: str = "length") -> Any:
    """Cut every reply for which fewer tokens of room were asked."""

    def faults(path: str, body: Body) -> Failure:
        if "messages" in body and body["max_completion_tokens"] < tokens:
            return finished(reason)
        return None

    return faults


@pytest.mark.parametrize("batch", [False, True])
def test_a_cut_reply_is_asked_for_again_with_more_room_and_both_are_used_up(
    cache: CallCache, batch: bool
) -> None:
    with serving(faults=cut_below(40)) as server:
        settings = model(server.url, batch=batch)
        (reply,) = ask([Prompt("one two three four")], settings, cache)
        assert isinstance(reply, Reply)
        assert reply.text == "ONE TWO THREE FOUR"
        # Four words were said each time; the first reply was billed whole before it was cut.
        assert reply.usage.output_tokens == 4 + 4
        assert rooms(server) == ([40] if batch else [10, 40])
        assert ask([Prompt("one two three four")], settings, cache) == [reply]
        assert server.billed.total() == 2


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_what_is_cut_again_is_missing_with_the_reason_and_asked_once_by_the_next_run(
    cache: CallCache, batch: bool, reason: str
) -> None:
    with serving(faults=cut_below(1000, reason)) as server:
        settings = model(server.url, batch=batch)
        (bad,) = asked(["one two"], settings, cache)
        assert f"the reply is cut ({reason}) again" in bad
        assert ("raise max_output_tokens 10" in bad) == (reason == "length")
        assert server.billed.total() == 2
        ask([Prompt("one two")], settings, cache)
        assert server.billed.total() == 3, "the first, cut reply is not paid for again"


def test_a_prompt_that_leaves_no_more_room_is_missing_with_the_setting_to_raise(
    cache: CallCache,
) -> None:
    with serving(faults=cut_below(1000)) as server:
        settings = model(server.url, context_window=256, max_output_tokens=250)
        (bad,) = asked(["one two"], settings, cache)
        assert "context_window 256 has no more room" in bad
        assert server.billed.total() == 1


def test_a_server_that_refuses_more_room_says_so(cache: CallCache) -> None:
    def faults(path: str, body: Body) -> Failure:
        if body["max_completion_tokens"] > 10:
            return Fault(400, "at most 10 tokens")
        return finished("length")

    with serving(faults=faults) as server:
        (bad,) = asked(["one two"], model(server.url), cache)
    assert "at most 10 tokens" in bad
    assert "the reply is cut at max_output_tokens 10" in bad


def test_whole_json_is_whole_though_the_reply_ran_on(cache: CallCache) -> None:
    def ran_on(reply: Body) -> Any:
        return {**reply, "choices": [{**reply["choices"][0], "finish_reason": "length"}]}

    with serving(lambda body: '{"level": "low"}   \n\n', lambda path, body: ran_on) as server:
        (reply,) = ask([Prompt("how?", schema=SCHEMA)], model(server.url), cache)
        assert isinstance(reply, Reply)
        assert reply.data == {"level": "low"}
        assert server.billed.total() == 1


def test_a_reply_that_had_no_room_for_a_word_is_no_refusal(cache: CallCache) -> None:
    """A model that thinks may use all its tokens before it says anything."""

    def faults(path: str, body: Body) -> Failure:
        return silent if body["max_completion_tokens"] == 10 else None

    with serving(faults=faults) as server:
        assert asked(["one two"], model(server.url), cache) == ["ONE TWO"]


def test_a_wrong_reply_of_more_room_is_repaired_there(cache: CallCache) -> None:
    def answer(body: Body) -> str:
        return '{"level": "low"}' if len(body["messages"]) > 1 else "dunno, dunno"

    with serving(answer, cut_below(40)) as server:
        (reply,) = ask([Prompt("how?", schema=SCHEMA)], model(server.url), cache)
        assert isinstance(reply, Reply)
        assert rooms(server) == [10, 40, 40]
        assert reply.usage.output_tokens == 2 + 2 + 2


def test_a_cut_line_of_a_batch_costs_only_its_own_request(cache: CallCache) -> None:
    def faults(path: str, body: Body) -> Failure:
        cut = path.startswith("batch/") and body["messages"][-1]["content"] == "p1"
        return finished("length") if cut else None

    with serving(faults=faults, batches=Batches()) as server:
        replies = asked(["p0", "p1", "p2", "p3"], model(server.url, batch=True), cache)
        assert replies == ["P0", "P1", "P2", "P3"]
        assert server.billed == {"p0": 1, "p1": 2, "p2": 1, "p3": 1}
        assert len(server.batches.submitted) == 4


@pytest.mark.parametrize("nothing", [" \n", "\u200b\ufeff\u2060\u00ad\0", "```\n```", '""'])
def test_a_blank_reply_is_asked_for_once_more_and_never_kept_as_an_answer(
    cache: CallCache, nothing: str
) -> None:
    blank = True

    def answer(body: Body) -> str:
        return nothing if blank else "yes"

    with serving(answer) as server:
        (bad,) = asked(["one"], model(server.url), cache)
        assert "the reply is blank again" in bad
        assert [len(body["messages"]) for body in server.bodies] == [1, 1]
        blank = False
        assert asked(["one"], model(server.url), cache) == ["yes"]
        assert len(server.bodies) == 3, "the next run asks once"
    assert read_reply("[]", Prompt("which?", schema={"type": "array"})) == []


def test_one_word_gets_few_tokens_and_a_model_that_thinks_gets_the_usual_number(
    cache: CallCache,
) -> None:
    def thinks(path: str, body: Body) -> Failure:
        return silent if body["max_completion_tokens"] < 400 else None

    prompts = [Prompt(f"is it {n}?", choices=("YES", "NO")) for n in range(3)]
    for faults, expected in ((none, [16, 16, 16]), (thinks, [16, 400, 400, 400])):
        with serving(lambda body: "YES", faults) as server:
            settings = chat(server.url, max_output_tokens=400, max_concurrency=1)
            made = ask(prompts, settings, cache)
            assert [reply.data for reply in made if isinstance(reply, Reply)] == ["YES"] * 3
            assert rooms(server) == expected


@pytest.mark.parametrize(
    ("said", "is_whole"),
    [("Yes, because the", True), ("**NO**", True), ("Nothing in", False), ("I think YES", False)],
)
def test_a_cut_reply_that_begins_with_a_choice_is_whole(said: str, is_whole: bool) -> None:
    prompt = Prompt("is it?", choices=("YES", "NO"))
    assert is_cut(Completion(said, Usage(), "length"), prompt) is not is_whole
    assert not is_cut(Completion(said, Usage()), prompt)
