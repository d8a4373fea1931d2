"""Saved checkpoints used without this project."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import DynamicLayer, TextDiffusionStreamer

from mars_demo import tasks
from mars_demo.core.layout import window
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.runtime.decoder import TransformersDecoder

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


def crop_of_transformers_5_0(layer: DynamicLayer, length: int) -> None:
    """Crop to a length, or by a negative number of positions, so that 0 is a length."""
    length += layer.get_seq_length() if length < 0 else 0
    if length < layer.get_seq_length():
        layer.keys, layer.values = layer.keys[..., :length, :], layer.values[..., :length, :]


@pytest.mark.parametrize("crop", [DynamicLayer.crop, crop_of_transformers_5_0])
def test_a_cache_is_cropped_only_where_it_is_longer(mars_tiny, monkeypatch, crop):
    monkeypatch.setattr(DynamicLayer, "crop", crop)
    decoder = TransformersDecoder(mars_tiny.model)
    text = decoder.new_text()
    decoder.forward(text, window([5, 6, 7], 0, mars_tiny.mask_id, 0), 0)
    for length, left in ((5, 3), (3, 3), (1, 1), (1, 1), (0, 0), (0, 0)):
        decoder.keep(text, length)
        assert {layer.get_seq_length() for layer in text.layers} == {left}


def test_the_documents_name_the_oldest_transformers_of_custom_generate(exported):
    """Transformers checks this file before it loads the code next to it."""
    requirement = (exported / "custom_generate" / "requirements.txt").read_text().strip()
    document = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    assert requirement.replace(">=", " ") in document


def test_custom_generate_shows_guesses_on_a_terminal_until_the_next_forward(exported, mars_tiny, capsys):
    prompt = tasks.held_out("stories", 1)[0].prompt
    ids = torch.tensor([encode_prompt(mars_tiny.tokenizer, prompt)])
    streamer = TextDiffusionStreamer(mars_tiny.tokenizer, skip_prompt=True, skip_special_tokens=True)
    settings = {"custom_generate": str(exported), "trust_remote_code": True, "tau": 0.5}
    mars_tiny.model.generate(ids, streamer=streamer, max_new_tokens=30, **settings)
    run = decode(mars_tiny, prompt, Request(tau=0.5, max_new_tokens=30)).finish()
    guesses = [[slot.id for slot in step.slots[step.accepted :]] for step in run.passes[:-1]]
    printed = capsys.readouterr().out
    # Yellow between a saved and a restored place of the cursor, as transformers' own drafts.
    drafts = re.findall("\0337\033\\[33m(.*?)\033\\[0m\0338\033\\[J", printed, re.DOTALL)
    decode_text = partial(mars_tiny.tokenizer.decode, skip_special_tokens=True)
    assert drafts == [decode_text(ids) for ids in guesses if ids] != []
    assert re.sub("\0337.*?\0338\033\\[J", "", printed, flags=re.DOTALL).strip() == run.text.strip()


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
