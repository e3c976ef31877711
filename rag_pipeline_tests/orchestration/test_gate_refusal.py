"""A scheduled run with a candidate that is significantly worse than the release."""

from datetime import datetime

import dagster as dg

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline_tests.testing.builds import build
from rag_pipeline_tests.testing.corpora import (
    question,
    rule,
    write_documents,
    write_file,
    write_questions,
)
from rag_pipeline_tests.testing.dagster_projects import ask, execute

THINGS = ("boat", "car", "desk", "horse", "lamp", "piano", "tent", "violin")


def write_rented(folder):
    """Write a document for each of eight questions."""
    texts = {f"{thing}.txt": f"The fee of the {thing} is 30 euros." for thing in THINGS}
    write_documents(folder / "documents", texts)
    asked = [question(t, f"fee of the {t}", f"{t}.txt", "30 euros") for t in THINGS]
    write_questions(folder, asked)
    one = rule("one", "markdown", retriever="hybrid")
    return write_file(folder, configurations=[one], schedule="0 3 * * *")


def test_it_is_refused_by_the_gate_once_and_says_why(tmp_path, instance, settle):
    file = write_rented(tmp_path)
    build(file)
    served = Corpus.load(file)
    before = served.release().release_id, served.search("fee of the boat", k=1)
    assert before[1][0].document_id == "boat.txt"

    # Five documents a question that say just its words: the gold one is sixth. All 8 are lost:
    # p = 2 / 2**8, which three metrics at most leave below 0.05.
    decoys = {f"{t}-{n}.txt": f"fee of the {t}, {t} fee {n}" for t in THINGS for n in range(5)}
    write_documents(tmp_path / "documents", decoys)
    repository = build_definitions(load_config(file), one_run=False).get_repository_def()
    (schedule,) = repository.schedule_defs
    now = datetime(2030, 1, 1, 3)
    tick = schedule.evaluate_tick(dg.build_schedule_context(instance, now))
    (request,) = tick.run_requests
    assert execute(file, instance, request._replace(job_name=schedule.job_name))
    asked = settle(file)
    assert asked[-2:] == [("leaderboard", None), ("release", None)]
    assert (served.release().release_id, served.search("fee of the boat", k=1)) == before

    run = instance.get_runs(limit=1)[0]
    failure = next(
        record.event_log_entry.dagster_event.step_failure_data.user_failure_data.description
        for record in instance.get_records_for_run(run.run_id).records
        if record.event_log_entry.dagster_event
        and record.event_log_entry.dagster_event.event_type_value == "STEP_FAILURE"
    )
    assert "AnswerPresence@5: refused: WORSE" in failure
    requests, reason = ask(file, instance)
    assert requests == []
    assert reason == "nothing to do before something changes; stuck: release"
