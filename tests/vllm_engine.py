"""A driver of vLLM with the plugin, run by the Python of an environment that has vLLM.

Reads one JSON object from standard input and writes one to the file that its argument names. `engine` has
the settings of `LLM`; `calls` has lists of requests by name, each request with a `prompt` of
token ids and `params`. The requests of a list run together.
"""

import json
import os
import sys

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

from vllm import LLM, SamplingParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

DEFAULTS = {
    "dtype": "float32",
    "max_model_len": 512,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 512,
    "enforce_eager": True,
    "seed": 0,
    "disable_log_stats": False,
}


def plugin(name: str, drafts: int = 16) -> dict:
    """Return the settings with which `LLM` uses the plugin of a package."""
    return {
        "worker_cls": f"{name}.worker.MarsWorker",
        "scheduler_cls": f"{name}.scheduler.MarsScheduler",
        "speculative_config": {
            "method": "custom_class",
            "model": f"{name}.sampler.MarsProposer",
            "num_speculative_tokens": drafts,
        },
    }


def parameters(**chosen) -> SamplingParams:
    if "shape" in chosen:
        chosen["structured_outputs"] = StructuredOutputsParams(**chosen.pop("shape"))
    defaults = {"temperature": 0.0, "max_tokens": 64, "output_kind": RequestOutputKind.CUMULATIVE}
    return SamplingParams(**(defaults | chosen))


def answer(llm: LLM, requests: list[dict]) -> list[dict]:
    """Run requests together; return their tokens and the forwards that gave tokens."""
    done = {}
    for number, request in enumerate(requests):
        prompt, params = {"prompt_token_ids": request["prompt"]}, parameters(**request.get("params", {}))
        llm.llm_engine.add_request(str(number), prompt, params)
        done[str(number)] = {"forwards": 0}
    while llm.llm_engine.has_unfinished_requests():
        for output in llm.llm_engine.step():
            last, found = output.outputs[0], done[output.request_id]
            found["forwards"] += 1
            found |= {"ids": list(last.token_ids), "text": last.text}
            if last.logprobs:
                found["logprobs"] = [one[id].logprob for one, id in zip(last.logprobs, last.token_ids)]
    return list(done.values())


def main() -> None:
    job = json.load(sys.stdin)
    package = job["engine"].pop("plugin", None)
    llm = LLM(**(DEFAULTS | (plugin(package) if package else {}) | job["engine"]))
    found = {name: answer(llm, requests) for name, requests in job["calls"].items()}
    found["metrics"] = {one.name: one.value for one in llm.get_metrics() if hasattr(one, "value")}
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
