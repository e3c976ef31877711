from rag_pipeline.pipeline.planning import steps, upstream

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
