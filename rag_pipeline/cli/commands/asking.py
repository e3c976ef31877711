"""What a release is for: search, ask, optimize, serve."""

from pathlib import Path
from typing import Annotated

import typer

from rag_pipeline.cli.console import print_json
from rag_pipeline.cli.find import open_corpus
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, names
from rag_pipeline.errors import InputError

app = typer.Typer()

_QUOTE = ". A question of several words is one argument: put it in quotes"


@app.command()
def search(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The question or words to search for.")
    ],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many chunks, 1 to 1000.")] = 5,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Filter in LanceDB's SQL, e.g. \"document_id LIKE 'policies/%'\" or "
            "\"json_get_string(metadata, 'suffix') = '.pdf'\".",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the release.

    \b
    Examples:
      rag search "notice period for termination" -k 3
      rag search "notice period for termination" contracts
      rag search "sick leave" --where "document_id LIKE 'policies/%'" --json
    """
    if not 1 <= k <= 1000:
        raise InputError(f"-k {k} is not in the range of 1 to 1000")
    searched = open_corpus(corpus, named, _QUOTE)
    found = searched.search(query, k=k, where=where)
    places = searched.places(found)
    if as_json:
        print_json(
            [
                {**chunk.record(), "place": place and place.record()}
                for chunk, place in zip(found, places, strict=True)
            ]
        )
        return
    from rag_pipeline.cli.tables import show_chunks

    show_chunks(found, query, places)


@app.command(short_help="Answer a question from the release, with sources.")
def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    document: Annotated[
        str | None, typer.Option("--document", "-d", metavar="ID", help="Ask one document only.")
    ] = None,
    instructions: Annotated[
        str, typer.Option(metavar="TEXT", help="Guidance for the chat model, if one is set.")
    ] = "",
    trace: Annotated[bool, typer.Option("--trace", help="Show what each stage did.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Answer a question from the release, with sources.

    Without a chat model (`assistant.chat` in the corpus file) the answer is made of verbatim
    sentences; each source is checked against its document.

    \b
    Examples:
      rag ask "How long does confidentiality last under the Acme NDA?"
      rag ask "Compare the notice periods" contracts --trace
      rag ask "When is a doctor's note needed?" -d policy/leave.md --json
    """
    from rag_pipeline.assistant import open_assistant
    from rag_pipeline.cli.answers import as_record, show_answer

    assistant = open_assistant([open_corpus(corpus, named, _QUOTE)])
    made = assistant.ask(question, document_id=document, instructions=instructions)
    if as_json:
        print_json(as_record(made))
    else:
        show_answer(made, trace)


@app.command(short_help="Improve the prompts of the assistant's model.")
def optimize(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="EntityF1 or AnswerPresence.")
    ] = "EntityF1",
    trials: Annotated[int, typer.Option(metavar="N", help="How many sets of examples.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses queries and examples.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Give the prompts of the assistant's model examples that worked, and keep what scores best.

    Needs `assistant.chat` in the corpus file. A third of the queries gives examples, a third
    chooses among the trials, and on the last third the result must not be worse than what is in
    use. Each result is a numbered file in the store.

    \b
    Examples:
      rag optimize
      rag optimize contracts --metric AnswerPresence --trials 5
    """
    from rag_pipeline.cli.optimize import optimize as optimize_corpus

    optimize_corpus(open_corpus(corpus, named), metric, trials, seed, as_json)


@app.command(short_help="Serve the release to assistants, by MCP and HTTP.")
def serve(
    corpora: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CORPUS...", help="Corpora to serve; one or more.", autocompletion=names
        ),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus", "-c", metavar="CORPUS", help="The same as CORPUS.", autocompletion=names
        ),
    ] = None,
    transport: Annotated[
        str, typer.Option(metavar="http|stdio", help="How clients connect.")
    ] = "http",
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port to listen on.", min=1, max=65535)
    ] = 9003,
    token_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the bearer token.")
    ] = "RAG_TOKEN",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Backend that requests may choose by header."),
    ] = None,
    log_questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add what is asked to this file, for `rag questions`."),
    ] = None,
    review: Annotated[
        bool,
        typer.Option("--review", help="Serve /review too: decide on synthetic questions there."),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hash a release's files before it is searched.")
    ] = False,
) -> None:
    """Serve releases to assistants: MCP tools, a page to ask on, and a Dify knowledge base.

    A newer release is opened beside the one that is searched, without a restart. Beyond loopback a
    bearer token is required, read from the environment variable RAG_TOKEN.

    \b
    Examples:
      rag serve contracts
      rag serve contracts policies --port 9003
      rag serve contracts --transport stdio
      rag serve contracts --log-questions asked.jsonl --review
      RAG_TOKEN=... rag serve contracts --host 0.0.0.0
    """
    from rag_pipeline.serving import ServerSettings, serve_http, serve_stdio

    if transport not in ("http", "stdio"):
        raise InputError(f"--transport {transport!r} is not one of: http, stdio")
    opened = [open_corpus(name) for name in (*(corpora or ()), *(named or ()))] or [open_corpus()]
    for one in opened:
        one.verify = verify
    settings = ServerSettings.from_environment(
        host, port, token_env, allow_host or [], log_questions, review
    )
    if transport == "stdio":
        serve_stdio(opened, settings)
    else:
        serve_http(opened, settings)
