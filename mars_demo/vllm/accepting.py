"""The acceptance of a request's forward, in lists of numbers."""

from collections.abc import Sequence

from mars_demo.core.acceptance import accepted

Ids = Sequence[int]


def accept(
    given: Ids,
    own: Ids,
    scores: Sequence[float],
    tau: float | None,
    pending: Ids,
    masks: int,
    least: float | None = None,
) -> tuple[list[int], list[int]]:
    """Return the tokens that a forward adds to an answer, and the drafts of the next forward.

    given: the drafts of this forward, before its masks.
    own, scores: the tokens that the model chooses after the last token, each draft and each mask.
    tau: the threshold; None verifies the drafts.
    pending: the drafts that were returned for this forward. With τ they are accepted already. vLLM drops
        them if it preempts the request; they are then given again, so that answers do not depend on load.
    masks: the masks whose outputs may become drafts.
    least: without τ, the score of a draft that is worth its verification; None for all.
    """
    given, pending, count = list(given), list(pending), 0
    if tau is not None and pending and given != pending:
        return pending[:1], pending[1:]
    while count < len(given) and (tau is not None or given[count] == own[count]):
        count += 1
    tokens = [*given[:count], own[count]]
    if count < len(given):
        return tokens, []  # the masks follow a rejected draft
    least = least if tau is None else tau
    most = masks if least is None else accepted(scores[count : count + 1 + masks], least) - 1
    return tokens, list(own[count + 1 : count + 1 + most])


def next_drafts(drafts: int, waited: int, requests: int, most: int) -> tuple[int, int]:
    """Return the masks of a lossless request's next forward, and its forwards without drafts so far.

    drafts: the drafts of the next forward, or if they are fewer those accepted in this one.
    waited: the forwards without drafts before this one.
    requests: the requests in the batch.

    Masks cost time, the more in larger batches. So their number follows that of the drafts, and a request
    without any waits the longer before it tries one mask, the more requests there are.
    """
    if drafts:
        return min(most, 2 * drafts + 1), 0
    return (min(1, most), 0) if waited >= requests // 4 else (0, waited + 1)
