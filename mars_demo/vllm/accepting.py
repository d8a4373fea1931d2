"""The tokens of a forward, their acceptance, and the next drafts: tensors of all requests at once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.noise import gumbel_noise
from mars_demo.vllm.arguments import Arguments, Server

NONE = -1  # no token, as in vLLM
WORTH = 0.5  # the score of a lossless request's draft that is worth its verification


def choose(logits: Tensor, temperature: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
    """Return tokens [rows] for truncated logits [rows, vocabulary], sampled where the temperature is not 0.

    As in `decoding.sampling`, a draft and the token that verifies it share their noise.
    """
    noise = gumbel_noise(seeds, positions, logits.shape[-1])
    return torch.where(temperature[:, None] > 0, logits + noise, logits).argmax(-1)


def accept(
    logits: Tensor, given: Tensor, own: Tensor, ends: Tensor, settings: Sequence[Arguments], server: Server,
    width: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the tokens that join each answer, and the next drafts, both [requests, width] up to `NONE`.

    logits: the model's own, before temperature and truncation, which score the slots.
    given: the tokens of all rows: each request's last token, its drafts and its masks.
    own: the tokens that the model chooses after them.
    ends: the end of each request's rows.
    """
    load, mask_id = server.load(len(settings)), server.mask_id
    taus = [arguments.threshold(load) for arguments in settings]
    least = [(WORTH if one.paced else 0.0) if tau is None else tau for one, tau in zip(settings, taus)]
    vectors = least, [one.masks for one in settings], [tau is not None for tau in taus]
    least, most, lossy = (torch.tensor(vector).to(own.device)[:, None] for vector in vectors)
    place = torch.arange(width, device=own.device)
    index = (ends - ends.diff(prepend=ends.new_zeros(1)))[:, None] + place
    behind, index = index >= ends[:, None], index.clamp(max=len(own) - 1)
    owner = torch.searchsorted(ends, torch.arange(len(own), device=ends.device), right=True)
    p, scores = logits.softmax(-1, dtype=torch.float32), torch.zeros(len(own), device=own.device)
    for name in {one.criterion for one in settings}:
        uses = torch.tensor([one.criterion == name for one in settings]).to(own.device)[owner]
        scores = torch.where(uses, CRITERIA[name].score(p, own), scores)
    own, scores, given = own[index], scores[index], given[index].masked_fill(behind, NONE)
    # With τ, drafts are accepted already; without, they are verified. The last token is always kept.
    kept = (given != NONE) & (given != mask_id) & (lossy | (given == own.roll(1, 1))) | (place == 0)
    kept = kept.cumprod(1).bool()
    # Masks predict the next tokens if they follow nothing but kept ones; at τ = 1 no slot is accepted.
    slot = (given == mask_id) & (place < kept.sum(1, keepdim=True) + most) & (scores >= least) & (least < 1)
    draft = (kept | slot).cumprod(1).bool() & ~kept
    goes_on = kept.roll(-1, 1) & (place < width - 1)
    tokens = torch.where(goes_on, given.roll(-1, 1), own).masked_fill(~kept, NONE)
    return tokens, own.masked_fill(~draft, NONE).gather(1, (~draft).int().argsort(stable=True))


def next_masks(drafts: int, waited: int, requests: int, most: int) -> tuple[int, int]:
    """Return the masks of a paced request's next forward, and its forwards without drafts so far.

    drafts: the drafts of the next forward, or if they are fewer those accepted in this one.

    Masks cost time, the more in larger batches. So their number follows that of the drafts, and a request
    without any waits the longer before it tries one mask, the more requests there are.
    """
    if drafts:
        return min(most, 2 * drafts + 1), 0
    return (min(1, most), 0) if waited >= requests // 4 else (0, waited + 1)
