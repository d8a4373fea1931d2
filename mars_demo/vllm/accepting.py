"""The acceptance of a forward's tokens, the next drafts and the next masks."""

import torch
from torch import Tensor

from mars_demo.core.acceptance import CRITERIA
from mars_demo.vllm.arguments import Arguments, Server

NONE = -1  # no token, as in vLLM
WORTH = 0.5  # the score of a lossless request's draft that is worth its verification


def accept(
    logits: Tensor, given: Tensor, own: Tensor, ends: Tensor, settings: list[Arguments], server: Server
) -> tuple[Tensor, Tensor]:
    """Return the tokens that join each answer and its next drafts: [requests, drafts + 1] up to `NONE`.

    given, ends: the last token, drafts and masks of each request, and where its rows end.
    own, logits: what the model chooses after each, and its logits before temperature and truncation.
    """
    least = [WORTH * one.paced if one.tau is None else one.tau for one in settings]
    rows = zip(least, [one.masks for one in settings], [one.tau is not None for one in settings])
    least, most, lossy = torch.tensor([*rows]).to(own.device).T[..., None]
    place = torch.arange(server.drafts + 1, device=own.device)
    index = (ends - ends.diff(prepend=ends.new_zeros(1)))[:, None] + place
    beyond, index = index >= ends[:, None], index.clamp(max=len(own) - 1)
    p, scores = logits.softmax(-1, dtype=torch.float32), torch.zeros(index.shape, device=own.device)
    for name in {one.criterion for one in settings}:
        uses = torch.tensor([[one.criterion == name] for one in settings]).to(own.device)
        scores = torch.where(uses, CRITERIA[name].score(p, own)[index], scores)
    own, given = own[index], given[index].masked_fill(beyond, NONE)
    # With τ, drafts are accepted already; without, they are verified. The last token is always kept.
    kept = (given != NONE) & (given != server.mask_id) & ((lossy > 0) | (given == own.roll(1, 1)))
    kept = (kept | (place == 0)).cumprod(1).bool()
    # Masks predict the next tokens if they follow nothing but kept ones.
    slot = (given == server.mask_id) & (place < kept.sum(1, keepdim=True) + most) & (scores >= least)
    draft = (kept | slot).cumprod(1).bool() & ~kept
    goes_on = kept.roll(-1, 1) & (place < server.drafts)
    tokens = torch.where(goes_on, given.roll(-1, 1), own).masked_fill(~kept, NONE)
    return tokens, own.masked_fill(~draft, NONE).gather(1, (~draft).int().argsort(stable=True))


def masks_after(drafts: int, length: int, arguments: Arguments, server: Server, requests: int) -> int:
    """Return the masks of a request's next forward.

    drafts: those of that forward, or those accepted in the last one, if more.
    length: the tokens of the answer so far.

    Masks cost time, the more in larger batches. So their number follows that of the drafts, and a request
    without any tries one mask the more rarely, the more requests there are.
    """
    if not arguments.paced or not length:
        return arguments.masks
    wanted = 2 * drafts + 1 if drafts else length % (1 + requests // 4) == 0
    return int(min(arguments.masks, wanted, max(1, server.shared // requests)))
