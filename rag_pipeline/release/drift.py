"""Compare a candidate with a reference release, as small losses of many releases add up.

The reference is `gate.reference`, else the best release of the last year: the served one at first,
then each later release that is shown to be better. Retention keeps the scores of the reference.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from rag_pipeline.evaluation.comparison import Groups, gains_of
from rag_pipeline.evaluation.intervals import lower_tail
from rag_pipeline.evaluation.scores import Scores
from rag_pipeline.release.margins import spent
from rag_pipeline.workspace import Workspace

_FILE = "gate/reference.json"
_LONGEST = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRelease:
    """The reference, and the number of the first comparison with it.

    `drifted` says that a build was shown to be worse which the served release let pass. From then
    on a candidate must be measured at least as good as the reference.
    """

    release_id: str
    first: int
    created: str
    drifted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The comparison with the reference: `refused`, or `better` so that it becomes the reference.

    `shown` says that a test refuses it, not only a lower mean.
    """

    reference: ReferenceRelease
    number: int
    refused: bool
    shown: bool
    better: bool
    reason: str


def new_reference(release_id: str, number: int) -> ReferenceRelease:
    """Return a release as the reference from the comparison with this number on."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ReferenceRelease(release_id=release_id, first=number, created=created)


def reference_of(workspace: Workspace, served: str, number: int) -> ReferenceRelease:
    """Return the reference of a comparison: the pinned one, the kept one or the served release."""
    pinned = workspace.config.gate.reference
    kept = workspace.store.read_json(_FILE)
    found = ReferenceRelease(**kept) if kept else None
    if found and pinned in (None, found.release_id):
        age = datetime.now(UTC) - datetime.fromisoformat(found.created)
        if pinned or age < _LONGEST:
            return found
    return new_reference(pinned or served, number)


def reference_id(workspace: Workspace) -> str | None:
    """Return the id of the release whose scores are still needed; None without one."""
    kept = workspace.store.read_json(_FILE) or {}
    return workspace.config.gate.reference or kept.get("release_id")


def keep_reference(workspace: Workspace, drift: Drift, released: str | None, passed: bool) -> None:
    """Write the reference for later comparisons.

    `released` is the id of the candidate's release, if it was released. `passed` says whether the
    comparison with the served release allowed it.
    """
    reference = drift.reference
    if released and drift.better and not workspace.config.gate.reference:
        reference = new_reference(released, drift.number + 1)
    elif drift.shown and passed:
        reference = replace(reference, drifted=True)
    workspace.store.write_json(_FILE, asdict(reference))


def compare_with_reference(
    reference: ReferenceRelease,
    own: Scores,
    scores: Scores,
    metrics: Sequence[str],
    groups: Groups,
    number: int,
    margin: float,
) -> Drift:
    """Compare a candidate's values with those of the reference, query by query.

    A metric is shown to be worse if its loss exceeds the margin and Student's one-sided test over
    groups is significant. The tests of all comparisons with a reference spend 5 % (`spent`), and
    the metrics share it (Bonferroni). `number` counts the comparisons.
    """
    measured = {m: g for m in metrics if len(g := gains_of(own, scores, m)) > 1}
    alpha = spent(max(1, number - reference.first + 1)) / max(1, len(measured))
    lost, shown, better = [], [], False
    for metric, gains in measured.items():
        values = list(gains.values())
        of_query = [groups.get(q, f"query {q}") for q in gains]
        mean = math.fsum(values) / len(values)
        if mean < 0:
            lost.append(f"{metric} {mean:+.4f}")
        if mean < -margin and lower_tail(values, of_query) <= alpha:
            shown.append(lost[-1])
        better |= mean > 0 and lower_tail([-v for v in values], of_query) <= alpha
    refused = bool(shown or (lost and reference.drifted))
    if shown:
        reason = f"refused: worse, {100 * (1 - alpha):.4g} % sure ({', '.join(shown)})"
    elif refused:
        reason = f"refused: lower, as an earlier build was shown to be worse ({', '.join(lost)})"
    else:
        reason = "allowed: not shown to be worse" + (f" ({', '.join(lost)})" if lost else "")
    return Drift(
        reference=reference,
        number=number,
        refused=refused,
        shown=bool(shown),
        better=better and not lost,
        reason=f"reference {reference.release_id}: {reason}",
    )
