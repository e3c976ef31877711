"""Compare a candidate with a reference release, because small losses of many releases add up.

The reference is `gate.reference`, or else the best release of the last year. At first, the served
release is the best. A later release becomes the best if a test shows that it is better. Retention
keeps the scores of the reference.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from rag_pipeline.evaluation.comparison import Groups, gains_of
from rag_pipeline.evaluation.intervals import group_names, lower_tail
from rag_pipeline.evaluation.scores import Scores
from rag_pipeline.release.margins import spent
from rag_pipeline.workspace import Workspace

_FILE = "gate/reference.json"
_LONGEST = timedelta(days=365)
_DECAY = 0.1
"""Small losses add up slowly, so much of the allowed error must be left after many nights."""
_FACTOR = 3
"""Multiple of the usual error that keeps 5 % for correlated comparisons (`allowed_error`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRelease:
    """The reference release, the number of the first comparison with it, and its start (UTC).

    `drifted` means that a build was worse than the reference but not worse than the served release.
    After that, a candidate must have at least the mean of the reference.
    """

    release_id: str
    first: int
    since: str
    drifted: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """The result of the comparison of a candidate with the reference release.

    `shown` means that a test shows a loss. A candidate is `refused` if a test shows a loss, or if a
    mean is lower and the reference has `drifted`. If `better` is True, the candidate's release
    becomes the reference.
    """

    reference: ReferenceRelease
    refused: bool
    shown: bool
    better: bool
    reason: str


def new_reference(release_id: str, first: int) -> ReferenceRelease:
    """Return the reference with this release, from comparison number `first` on."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return ReferenceRelease(release_id=release_id, first=first, since=now)


def reference_of(workspace: Workspace, served: str, number: int) -> ReferenceRelease:
    """Return the reference for comparison `number`.

    The reference is `gate.reference`, or else the stored reference, or else the served release.
    """
    pinned = workspace.config.gate.reference
    record = workspace.store.read_json(_FILE)
    if record and pinned in (None, record["release_id"]):
        kept = ReferenceRelease(**record)
        age = datetime.now(UTC) - datetime.fromisoformat(kept.since)
        # If the reference is newer than the served release, it was rolled back.
        if pinned or (age < _LONGEST and kept.release_id <= served):
            # If the record of refused builds was lost, the comparisons are counted from here on. A
            # rollback to the reference undoes the drift.
            drifted = kept.drifted and kept.release_id != served
            return replace(kept, first=min(kept.first, number), drifted=drifted)
    return new_reference(pinned or served, number)


def reference_id(workspace: Workspace) -> str | None:
    """Return the id of the reference release, or None. The store must keep its scores."""
    record = workspace.store.read_json(_FILE) or {}
    return workspace.config.gate.reference or record.get("release_id")


def keep_reference(
    workspace: Workspace, drift: Drift | None, passed: bool, released: str | None, number: int
) -> None:
    """Write the reference of the next comparison, which has the number `number`.

    `passed` is True if the comparison with the served release allows the candidate. `released` is
    the id of the candidate's release, or None if the candidate was refused. `drift` is None for a
    first release, or if `gate.metrics` is empty. Then the release becomes the reference.
    """
    if released and (drift is None or drift.better):
        workspace.store.write_json(_FILE, asdict(new_reference(released, number)))
    elif drift:
        drifted = drift.reference.drifted or (drift.shown and passed)
        workspace.store.write_json(_FILE, asdict(replace(drift.reference, drifted=drifted)))


def allowed_error(comparison_number: int, metrics: int) -> float:
    """Return the allowed error of a metric in the n-th comparison with one reference (n from 1).

    All comparisons contain the values of the reference. So the test statistics of equally good
    builds have a correlation of at least 1/2. Their joint error is the largest if the correlation
    is 1/2 (Slepian, 1962). That error is the integral over x of φ(x) (1 - Π Φ(√2 cₙ + x)), where cₙ
    is the critical value of comparison n. With m metrics, the total error is at most m times this
    integral (Bonferroni). It is at most 5 % for 1 to 6 metrics and 20,000 comparisons.
    """
    return _FACTOR * spent(comparison_number, _DECAY) / metrics


def compare_with_reference(
    reference: ReferenceRelease,
    own: Scores,
    scores: Scores,
    metrics: Sequence[str],
    groups: Groups,
    number: int,
    margin: float,
) -> Drift:
    """Compare a candidate's values with the values of the reference, query by query.

    A metric is worse if its loss exceeds the margin and Student's one-sided test over groups is
    significant. All tests against one reference have a total error of at most 5 %
    (`allowed_error`). `number` is the number of this comparison.
    """
    measured = {m: g for m in metrics if len(g := gains_of(own, scores, m)) > 1}
    alpha = allowed_error(max(1, number - reference.first + 1), max(1, len(measured)))
    lost, shown, better = [], [], False
    for metric, gains in measured.items():
        values, of_query = list(gains.values()), group_names(gains, groups)
        mean = math.fsum(values) / len(values)
        if mean < 0:
            lost.append(f"{metric} {mean:+.4f}")
        if mean < -margin and lower_tail(values, of_query) <= alpha:
            shown.append(lost[-1])
        better |= lower_tail([-v for v in values], of_query) <= alpha
    refused = bool(shown or (lost and reference.drifted))
    if shown:
        reason = f"refused: worse, {100 * (1 - alpha):.4g} % sure"
    elif refused:
        reason = "refused: lower, and an earlier build was worse"
    else:
        reason = "allowed: no test shows a loss"
    losses = f" ({', '.join(shown or lost)})" if lost else ""
    cure = "; to change the reference, set gate.reference to the served release" if refused else ""
    reason = f"reference {reference.release_id}: {reason}{losses}{cure}"
    return Drift(reference, refused, bool(shown), better and not lost, reason)
