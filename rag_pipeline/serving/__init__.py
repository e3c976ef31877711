"""Serve released corpora to people and agents, by MCP, HTTP and standard input and output."""

from collections.abc import Sequence
from contextlib import suppress

from rag_pipeline.calls.telemetry import export
from rag_pipeline.corpus import Corpus
from rag_pipeline.errors import MissingExtraError
from rag_pipeline.serving.settings import ServerSettings as ServerSettings
from rag_pipeline.serving.settings import read_token as read_token


def serve_http(corpora: Sequence[Corpus], settings: ServerSettings) -> None:
    """Serve by HTTP until SIGINT or SIGTERM, then finish open requests within `stop_seconds`.

    Each request writes a line of JSON to standard error. Raises ConfigError for an unusable
    address.
    """
    _need_packages()
    from rag_pipeline.assistant import open_assistant
    from rag_pipeline.serving.app import build_app
    from rag_pipeline.serving.connections import StoppableServer, check_address, listening
    from rag_pipeline.serving.guards import log_to_stderr

    check_address(settings)
    log_to_stderr()
    export()
    StoppableServer(listening(build_app(open_assistant(corpora), settings), settings)).run()


def serve_stdio(corpora: Sequence[Corpus], settings: ServerSettings) -> None:
    """Serve one client by standard input and output."""
    _need_packages()
    from rag_pipeline.assistant import open_assistant
    from rag_pipeline.serving.question_log import QuestionLog
    from rag_pipeline.serving.tools import build_mcp

    with suppress(KeyboardInterrupt):
        log = QuestionLog(settings.log_questions)
        build_mcp(open_assistant(corpora), log=log).run("stdio", show_banner=False)


def _need_packages() -> None:
    try:
        import fastmcp  # noqa: F401
    except ImportError:
        raise MissingExtraError("fastmcp", "serve") from None
