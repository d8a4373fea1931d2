"""Saved checkpoints used without this project."""

import json
import subprocess
import sys

import pytest

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt

OUTSIDE = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, calls = sys.argv[1], json.loads(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
for prompt, settings in calls:
    chat = [{"role": "user", "content": prompt}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    try:
        output = model.generate(ids, custom_generate=folder, trust_remote_code=True, **settings)
        print(json.dumps(output[0, ids.shape[1] :].tolist()))
    except ValueError as error:
        print(json.dumps(str(error)))
assert not any(name.startswith("mars_demo") for name in sys.modules)
"""


def generate_outside(folder, calls):
    """Return the results of calls in a child process that cannot import this project."""
    command = [sys.executable, "-c", OUTSIDE, str(folder), json.dumps(calls)]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.full
def test_custom_generate_decodes_as_this_project_does_and_refuses_bad_settings(exported, mars_tiny):
    units, story, code = (tasks.held_out(name, 1)[0].prompt for name in ("units", "stories", "functions"))
    calls = [
        (units, {"tau": 0.95}),
        (story, {"tau": 0.5, "window": 4}),
        (code, {"tau": 0.95}),
        (units, {"tau": 1.0}),
        (story, {"tau": 0.0, "max_new_tokens": 11}),
        (code, {"tau": 0.7, "criterion": "entropy"}),
        (story, {"tau": 0.7, "criterion": "margin"}),
    ]
    bad = [
        ("hello", {"tau": 2}, "0 and 1"),
        ("hello", {"window": 10}, "1 to 9"),
        ("hello", {"criterion": "mood"}, "probability, entropy, margin"),
    ]
    answers = generate_outside(exported, [*calls, *((prompt, setting) for prompt, setting, _ in bad)])
    for (prompt, setting), tokens in zip(calls, answers):
        room = mars_tiny.context - len(encode_prompt(mars_tiny.tokenizer, prompt))
        run = decode(mars_tiny, prompt, Request(**{"max_new_tokens": room} | setting)).finish()
        assert tokens == run.token_ids, setting
    for (*_, fact), message in zip(bad, answers[len(calls) :], strict=True):
        assert fact in message
