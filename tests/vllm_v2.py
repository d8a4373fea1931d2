"""A forward through the parts of Model Runner V2, on a CPU, run by the Python of an environment with vLLM.

The runner itself needs a GPU. What it hands to the plugin is made here; vLLM's classes are the real ones.
"""

from types import SimpleNamespace

import numpy as np
import torch
from vllm import SamplingParams
from vllm.v1.worker.gpu.sample.states import NO_LOGPROBS

from mars_demo.vllm.arguments import Server
from mars_demo.vllm.v2 import replace_speculator

SERVER, MASK = Server(mask_id=9, masks=2, drafts=4, slots=4), 9
# By the index of a request's state: its arguments, its last token and speculative tokens, what the model
# chooses after them, the tokens that join its answer and the next forward's speculative tokens.
REQUESTS = {
    3: ({"masks": 2}, [0, 5, 6, MASK, MASK], [5, 6, 7, 1, 2], [5, 6, 7], [1, 2, MASK, MASK]),
    0: ({"masks": 2}, [0, 5, 6, MASK, MASK], [5, 4, 7, 1, 2], [5, 4], [MASK] * 4),
    2: ({"tau": 0.9}, [0, 5, MASK, MASK, MASK], [4, 7, 1, 2, 3], [5, 7], [1, 2, MASK, MASK]),
    1: ({"masks": 0}, [0], [8], [8], [MASK] * 4),
}
rows = [(index, *pair) for index, (_, given, own, *_) in REQUESTS.items() for pair in zip(given, own)]
owner, given, own = (torch.tensor(column) for column in zip(*rows))
indices = torch.tensor([*REQUESTS])
ends = torch.tensor([len(given) for _, given, *_ in REQUESTS.values()]).cumsum(0)

states = SimpleNamespace(temperature=torch.tensor([0.0, 0, 0, 1e-3]), seeds=torch.arange(4))
states = SimpleNamespace(
    **{name: SimpleNamespace(gpu=value, np=value.numpy()) for name, value in vars(states).items()}
)
sampler = SimpleNamespace(
    sampling_states=states,
    needs_logits_processing=np.zeros(4, bool),
    logprobs_mode="raw_logprobs",
    return_sampling_mask=False,
)
config = SimpleNamespace(
    num_speculative_tokens=4,
    enable_adaptive_verification=False,
    fly_entropy_threshold=0,
    fly_entropy_top_k=0,
    rejection_sample_method="standard",
)
runner = SimpleNamespace(sampler=sampler, speculative_config=config, device=torch.device("cpu"))
replace_speculator(runner, SERVER)
runner.sampler.params = {index: SamplingParams(extra_args=extra) for index, (extra, *_) in REQUESTS.items()}

start = torch.zeros(1, dtype=torch.int32)
batch = SimpleNamespace(
    num_reqs=4, idx_mapping=indices, idx_mapping_np=indices.numpy(), expanded_idx_mapping=owner,
    cu_num_logits=torch.cat((start, ends.int())), expanded_local_pos=owner,
    seq_lens_cpu_upper_bound=ends, cu_num_logits_np=torch.cat((start, ends.int())).numpy(),
)  # fmt: skip
logits, positions = torch.nn.functional.one_hot(own, 10) * 20.0, torch.arange(len(given))
parts = logits, batch, None, given.int(), positions
sampled, counts, *_ = runner.rejection_sampler._verify_in_chunks(*parts, 1000, NO_LOGPROBS)
spec = runner.speculator.propose(batch, None, None)
for row, count, drafts, (*_, tokens, after) in zip(sampled, counts, spec, REQUESTS.values()):
    assert (row[:count].tolist(), drafts.tolist()) == (tokens, after)
assert sampled.shape == (4, 5)
