from rag_pipeline import indexing
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

OF_A_CONFIGURATION = ("retrieval_run answer_presence answers entity_scores context_scores").split()


def test_the_steps_follow_the_flow_and_share_partitions(config):
    assert [str(step) for step in steps(config)] == [
        "documents",
        "queries",
        "chunks recursive_150",
        "contextualized_chunks recursive_150.structural",
        "contextualized_chunks recursive_150.none",
        "lexical_index recursive_150.structural",
        "vector_index recursive_150.structural.minilm",
        "vector_index recursive_150.none.minilm",
        *(
            f"{asset} {configuration}"
            for asset in OF_A_CONFIGURATION
            for configuration in ("default", "plain")
        ),
        "leaderboard",
        "release",
    ]


def test_every_step_reads_only_from_steps_before_it(config):
    order = steps(config)
    for position, step in enumerate(order):
        assert set(upstream(config, step)) <= set(order[:position])


def test_a_changed_document_is_stale_downstream_once_its_chunks_are_made(tmp_path, workspace):
    indexing.update_documents(workspace)
    indexing.update(workspace, "chunks", "recursive_150")
    context = Step("contextualized_chunks", "recursive_150.none")
    indexing.update(workspace, context.asset, context.partition)
    assert not plan_step(workspace, context).must_run
    write_documents(tmp_path / "documents", {"nda/acme.txt": DOCUMENTS["nda/acme.txt"] + "More."})
    indexing.update_documents(workspace)
    before = plan_step(workspace, Step("chunks", "recursive_150")).documents
    assert before is not None
    assert before.stale == ("nda/acme.txt",)
    indexing.update(workspace, "chunks", "recursive_150")
    plan = plan_step(workspace, context)
    assert plan.must_run and plan.documents is not None
    assert (plan.documents.stale, plan.documents.current) == (("nda/acme.txt",), 3)
