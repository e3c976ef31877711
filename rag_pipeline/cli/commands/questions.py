"""Define the commands about questions for the evaluation: make, review, import, label."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rag_pipeline.cli.console import set_quiet
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.cli.options import (
    MADE_QUESTIONS,
    CorpusArgument,
    CorpusOption,
    JsonFlag,
    QuietFlag,
    argument,
    flag,
    option,
)


class _MakeByDefault(TyperGroup):
    """A group that runs `rag questions CORPUS` as `rag questions make CORPUS`."""

    default = "make"

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not args or args[0] not in (*self.commands, "--help"):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_MakeByDefault,
    add_completion=False,
    rich_markup_mode=None,
    help="Make questions from the documents, and review them. Without a command: make.\n\n"
    "Example: rag questions contracts --number 300",
)


@app.command(short_help="Make questions from the documents.")
def make(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    number: Annotated[
        int, option("N", "At most N questions of one passage.", "--number", "-n", min=0)
    ] = MADE_QUESTIONS,
    several: Annotated[int, option("N", "Also N that need two documents.", min=0)] = 0,
    unanswerable: Annotated[int, option("N", "Also N that no document answers.", min=0)] = 0,
    chat: Annotated[
        str | None, option("NAME", "Chat model as writer [the corpus file's first]; `none`: rules.")
    ] = None,
    plan: Annotated[bool, flag("--plan", "With --chat: show the cost, and call nothing.")] = False,
    add: Annotated[bool, flag("--add", "Add them to a file with people's questions.")] = False,
    output: Annotated[Path | None, option("FILE", "Write there instead.", "--output", "-o")] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Make questions from the documents for the evaluation. No labels are needed.

    Without a chat model in the corpus file, rules make the questions. In English and German they
    ask for quantities, duties and rights, conditions, definitions, options and headed sections.
    Each question is tested: a search must find its passage, and no other passage and no title may
    answer it. Most questions name their document. The questions are marked `synthetic`, and reports
    say how many questions are synthetic. A second call replaces synthetic questions that nobody
    accepted.

    With `--several`, questions need two documents, and both passages are gold. With
    `--unanswerable`, questions have the tag `unanswerable` and no gold. They test whether `rag ask`
    says that nothing answers. A chat model writes questions in the documents' language, and they
    are tested in the same way. The model's calls are cached, charged and limited by the budget. The
    estimated cost is printed before the first call. If the model fails, rules make the questions.

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

    Each question is shown with its answer and its gold passage. A rejected question leaves the
    file and is not made again. Skipped questions are shown again next time.

    \b
    Example:
      rag questions review contracts
    """
    from rag_pipeline.cli.questions import review_questions

    review_questions(find_corpus_file(corpus, named))


@app.command(short_help="Drop the questions whose gold text is gone.")
def drop(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Drop the questions whose gold text is gone, because a document was edited or deleted.

    A file beside the queries file keeps the dropped questions. Questions about documents in
    quarantine stay.

    \b
    Example:
      rag questions drop contracts
    """
    from rag_pipeline.cli.questions import drop_lost

    drop_lost(find_corpus_file(corpus, named))


@app.command("import", short_help="Sample the questions in a server's log.")
def import_(
    log: Annotated[Path, argument("LOG", "A file of `rag serve --log-questions` or `--feedback`.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    number: Annotated[int, option("N", "At most N questions.", "--number", "-n", min=1)] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Sample questions that users asked a server, for labelling.

    LOG is the file of `rag serve --log-questions` or `--feedback`, or a text file with one question
    per line. Judged questions come first, with the passages that users named. The other questions
    are clustered by meaning with the packaged embedding, weighted by frequency. One question of
    each cluster is kept. `rag questions label` then adds the answers. Questions without an answer
    are not evaluated.

    \b
    Example:
      rag questions import asked.jsonl contracts --number 50
    """
    from rag_pipeline.cli.labelling import import_log

    import_log(find_corpus_file(corpus, named), log, number, as_json)


@app.command(short_help="Name the passages that answer imported questions.")
def label(corpus: CorpusArgument = None, named: CorpusOption = None) -> None:
    """Go through imported questions, and name the passages that answer each question.

    The first passages that the release finds are shown. Name the answering passages by their
    numbers and words, or say that nothing answers. If the release does not find the answer, add the
    question to the queries file by hand, with a quote.

    \b
    Example:
      rag questions label contracts
    """
    from rag_pipeline.cli.labelling import label_questions

    label_questions(find_corpus_file(corpus, named))
