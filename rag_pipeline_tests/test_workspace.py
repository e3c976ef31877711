from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Prompt, Reply, Usage
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus


class _Echo(Workspace):
    """A project's own workspace, which asks no model."""

    def ask(self, chat, counts=None):
        return lambda prompts: [Reply(f"{chat}: {p.user}", None, Usage()) for p in prompts]


def test_methods_and_judges_ask_as_a_workspace_of_a_projects_own_does(tmp_path):
    chats = {"small": {"provider": "openai", "model": "none", "base_url": "http://127.0.0.1:9"}}
    models = _Echo(load_config(write_corpus(tmp_path, chats=chats))).models()
    (reply,) = models.ask([Prompt("why?")], "small")
    assert isinstance(reply, Reply)
    assert reply.text == "small: why?"
