"""The model's server dies: questions are answered by rules, and the answers say so."""

import json

import pytest

pytest.importorskip("dspy", reason="needs the extra `dspy`")

from rag_pipeline.assistant import open_assistant
from rag_pipeline.assistant.model import ModelWithFallback
from rag_pipeline.errors import BudgetError, CallsStoppedError, MissingExtraError, ProviderError
from rag_pipeline.models.providers.openai import ChatModel
from rag_pipeline_tests.testing.model_faults import CUT, HANG, Fault
from rag_pipeline_tests.testing.model_server import serving
from rag_pipeline_tests.testing.scripted_replies import passage_with, scripted, signature_of

QUESTION = "When is a doctor's note needed?"
INTENT = {"kind": "definition", "domain": "leave", "entities": []}


def steps_by_rule(made):
    return [step for s in made.trace for step in s.detail.get("by_rule", {})]


def test_a_server_that_dies_between_two_questions(talking, released):
    def answer(body):
        return {"answer": f"From the third day [{passage_with(body, 'third day')}]."}

    replies = scripted(intent=INTENT, keywords={"queries": ["sickness note"]}, answer=answer)
    with serving(replies) as server:
        assistant = talking(server.url, {"patience_seconds": 0.2})
        well = assistant.ask(QUESTION)
    ill = assistant.ask("How expensive may a hotel be?")
    assert well.text == "From the third day [1]." and not well.warnings
    by_rules = open_assistant([released]).ask("How expensive may a hotel be?")
    assert (ill.text, ill.sources, ill.intent) == (by_rules.text, by_rules.sources, by_rules.intent)
    (warning,) = ill.warnings
    assert warning.startswith("done by rules, because the model failed: intent, keywords, answer (")
    assert "test-model at 127.0.0.1" in warning
    assert steps_by_rule(ill)[0] == "intent" and steps_by_rule(ill)[-1] == "answer"


@pytest.mark.parametrize("fault", [Fault(500), CUT, HANG])
def test_a_server_that_dies_within_a_question(talking, fault):
    """Each further step would be waited for as long as the first: it is not asked."""

    def reply(body):
        return json.dumps(INTENT) if signature_of(body) == "intent" else fault

    with serving(reply) as server:
        settings = {"patience_seconds": 0.1, "timeout_seconds": 0.3}
        made = talking(server.url, settings, boosted_files=1).ask(QUESTION)
    assert made.intent.kind == "definition" and "third day" in made.text
    assert steps_by_rule(made) == ["keywords of policy/leave.md", "answer"]
    assert {signature_of(body) for body in server.bodies} == {"intent", "keywords"}


def test_a_model_that_is_slow_is_given_up_in_the_time_that_is_set(talking):
    with serving(lambda body: HANG) as server:
        made = talking(server.url, {"patience_seconds": 60}, model_seconds=0.2).ask(QUESTION)
        assert "third day" in made.text
        assert "no answer within 0.2 s" in made.warnings[0]


def test_what_can_not_work_is_not_asked_again_in_one_answer():
    by_model, detail = ModelWithFallback(), {}

    def fails(error):
        def ask():
            raise error

        return ask

    assert by_model(detail, "intent", lambda: "model", lambda: "rule") == "model"
    assert by_model(detail, "intent", fails(ProviderError("garbled")), lambda: "rule") == "rule"
    assert by_model(detail, "answer", lambda: "model", lambda: "rule") == "model"
    assert by_model(detail, "keywords", fails(BudgetError("spent")), lambda: "rule", of="a") == (
        "rule"
    )
    assert by_model(detail, "answer", lambda: "model", lambda: "rule") == "rule"
    assert detail == {"by_rule": {"intent": "garbled", "keywords of a": "spent", "answer": "spent"}}
    assert by_model.warnings == (
        "done by rules, because the model failed: intent, keywords, answer (garbled)",
    )
    with pytest.raises(MissingExtraError):
        ModelWithFallback()({}, "intent", fails(MissingExtraError("a", "b")), lambda: "rule")
    with pytest.raises(CallsStoppedError):
        ModelWithFallback(needs_model=True)(
            {}, "a", fails(CallsStoppedError("out")), lambda: "rule"
        )


def test_whoever_waits_gets_the_models_time_not_a_runs(talking):
    def times(chat, **settings):
        model = talking("http://127.0.0.1:9/v1", chat, **settings).model
        return model._settings.timeout_seconds, model._settings.patience_seconds

    usual = ChatModel(provider="openai", model="m")
    assert (usual.timeout_seconds, usual.patience_seconds) == (60, 300)
    assert times({"patience_seconds": 300}) == (30, 5)
    assert times({"patience_seconds": 300}, model_seconds=2) == (2, 2)
    assert times({"timeout_seconds": 1, "patience_seconds": 0}) == (1, 0)
