"""Questions to measure with, where nobody has asked any: questions make, review."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rag_pipeline.cli.console import set_quiet
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, QuietFlag


class _MakeByDefault(TyperGroup):
    """`rag questions CORPUS` stands for `rag questions make CORPUS`."""

    default = "make"

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not args or args[0] not in (*self.commands, "--help"):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_MakeByDefault,
    add_completion=False,
    rich_markup_mode=None,
    help="Make questions from the documents, and review them.",
)


@app.command(short_help="Make questions from the documents.")
def make(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", min=0, help="At most so many questions.")
    ] = 150,
    several: Annotated[
        int,
        typer.Option("--several", metavar="N", min=0, help="Besides, N that two documents answer."),
    ] = 0,
    unanswerable: Annotated[
        int,
        typer.Option("--unanswerable", metavar="N", min=0, help="Besides, N that none answers."),
    ] = 0,
    chat: Annotated[
        str | None,
        typer.Option("--chat", metavar="NAME", help="A chat model of the corpus file writes them."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="With --chat: say what it would cost, and ask nothing.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add them to a file that holds people's questions.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead.")
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make questions from the documents, so that something can be measured; no labels needed.

    By rules, in English and without a model: durations, sums, percentages, dates, definitions,
    headed sections and what somebody must or may do are asked for in varied wording. Each question
    is tried on the documents first: a search must find its passage, no other passage may answer it
    as well, and the title may neither answer it nor be all that it asks for. Documents that say
    alike things are asked about these by name, also if fewer questions come of it. They are marked
    `synthetic`, and every figure says how many of its questions are. Calling it again replaces
    those that nobody has accepted.

    With `--several`, questions that need two documents; both passages are gold. With
    `--unanswerable`, questions that no document answers (tag `unanswerable`, no gold), to see
    whether `rag ask` says so; searching is not measured on them. With `--chat` a model writes
    the questions, in the documents' language; they are certified in the same way. Its calls are
    cached, charged and held to the budget like all others.

    \b
    Examples:
      rag questions
      rag questions contracts --number 300
      rag questions contracts --add --unanswerable 50
      rag questions contracts --chat small --plan
    """
    from rag_pipeline.cli.questions import Wanted, make_and_write

    set_quiet(quiet)
    counts = Wanted(number, several, unanswerable)
    make_and_write(find_corpus_file(corpus, named), counts, add, output, as_json, chat, plan)


@app.command(short_help="Accept, reject or edit synthetic questions.")
def review(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Go through the synthetic questions one by one: accept, reject or edit each.

    Shown are the question, its answer and the passage that it is measured by. A rejected question
    leaves the file and is not made again; what is left undecided comes up the next time.

    \b
    Example:
      rag questions review contracts
    """
    from rag_pipeline.cli.questions import review_questions

    review_questions(find_corpus_file(corpus, named))


@app.command("import", short_help="Sample the questions that a server was asked.")
def import_(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="What rag serve wrote, or a text.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", min=1, help="At most so many questions.")
    ] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Sample the questions that people asked a server, to be labelled.

    LOG is what `rag serve --log-questions` wrote, or a text file of a question a line. Questions
    are clustered by their meaning (with the packaged embedding, or the corpus's where there is
    none), weighted by how often each was asked; one of each cluster stands for the others.
    They are measured with only after `rag questions label` says what answers them.

    \b
    Example:
      rag questions import asked.jsonl contracts --number 50
    """
    from rag_pipeline.cli.asked import import_log

    import_log(find_corpus_file(corpus, named), log, number, as_json)


@app.command(short_help="Say what answers imported questions.")
def label(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Go through imported questions: say which of the passages found answer each.

    Shown are the first passages that the release finds. Name those that answer by their numbers,
    and the words in them; or say that nothing answers. An answer that the release does not find
    can't be named here: add such questions to the queries file by hand, with a quote.

    \b
    Example:
      rag questions label contracts
    """
    from rag_pipeline.cli.asked import label_questions

    label_questions(find_corpus_file(corpus, named))
