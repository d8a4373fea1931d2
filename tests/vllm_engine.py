"""A driver of vLLM with the plugin, run by the Python of an environment that has vLLM.

Reads one JSON object from standard input and writes one to the file that its argument names. `engine` has
the settings of `LLM`, `calls` the lists of requests that run together, each with a `prompt` of token ids and
`params`.
"""

import json
import os
import sys

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
}

from vllm import LLM, SamplingParams, __version__
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

PLUGIN = "mars_demo.vllm"


def settings(plugin: str = PLUGIN, drafts: int = 16) -> dict:
    """Return the settings with which `LLM` uses the plugin."""
    return {
        "worker_cls": f"{plugin}.worker.MarsWorker",
        "scheduler_cls": f"{plugin}.scheduler.MarsScheduler",
        "speculative_config": {
            "method": "custom_class",
            "model": f"{plugin}.proposer.MarsProposer",
            "num_speculative_tokens": drafts,
        },
    }


def engine(own: bool = True, **changed) -> LLM:
    """Return an engine in float32 with the plugin, or stock."""
    common = {
        "dtype": "float32", "max_model_len": 512, "enforce_eager": True, "seed": 0, "max_num_seqs": 8,
        "disable_log_stats": False,
    }  # fmt: skip
    plugin = changed.pop("plugin", PLUGIN)
    return LLM(**(common | (settings(plugin) if own else {}) | changed))


def answer(llm: LLM, requests: list[dict]) -> list[dict]:
    """Run requests together; return their tokens, forwards and other results."""
    done = {}
    for number, request in enumerate(requests):
        chosen = {"temperature": 0.0, "max_tokens": 64} | request.get("params", {})
        if "choice" in chosen:
            chosen["structured_outputs"] = StructuredOutputsParams(choice=chosen.pop("choice"))
        params = SamplingParams(**chosen, output_kind=RequestOutputKind.CUMULATIVE)
        llm.llm_engine.add_request(str(number), {"prompt_token_ids": request["prompt"]}, params)
        done[str(number)] = {"forwards": 0}
    while llm.llm_engine.has_unfinished_requests():
        for output in llm.llm_engine.step():
            last, found = output.outputs[0], done[output.request_id.split("-")[0]]
            found["forwards"] += 1
            found |= {"ids": list(last.token_ids), "text": last.text, "reason": last.finish_reason}
            if last.logprobs:
                found["logprobs"] = [
                    {int(token): [value.logprob, value.rank] for token, value in one.items()}
                    for one in last.logprobs
                ]
    return list(done.values())


def counted(llm: LLM) -> dict:
    return {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}


def main() -> None:
    job = json.load(sys.stdin)
    llm = engine(**job["engine"])
    results = []
    for call in job["calls"]:
        results.append(answer(llm, call))
        llm.reset_prefix_cache() if not job.get("cached") else None
    found = {"version": __version__, "results": results, "metrics": counted(llm)}
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
