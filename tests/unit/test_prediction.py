"""AR's predictions for tokens of recorded answers."""

import pytest
import torch

from mars_demo.decoding import prefill
from mars_demo.decoding.decode import decode
from mars_demo.decoding.prediction import predict
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui import predictions

PROMPT = "How many?"


def test_the_ar_prediction_is_the_distribution_of_the_model(random_checkpoint, monkeypatch):
    monkeypatch.setattr(prefill, "CHUNK", 12)
    run = decode(random_checkpoint, PROMPT, Request("mars", tau=0.05, max_new_tokens=16)).finish()
    ids = encode_prompt(random_checkpoint.tokenizer, PROMPT)
    with torch.no_grad():
        logits = random_checkpoint.model(torch.tensor([ids + run.token_ids])).logits[0].double()
    sizes, compute = [], Engine.forward
    monkeypatch.setattr(
        Engine, "forward", lambda *call: sizes.append(call[1].ids.shape[1]) or compute(*call)
    )
    for at, token in enumerate(run.token_ids):
        p = logits[len(ids) + at - 1].softmax(-1)
        sizes.clear()
        ar = predict(random_checkpoint, run, at)
        assert sum(sizes) == len(ids) + at and max(sizes) <= 12
        assert ar.probability == pytest.approx(p[token].item(), rel=1e-4)
        assert ar.rank == 1 + (p > p[token]).sum()
        best = p.topk(5)
        assert [text for text, _ in ar.top] == [
            random_checkpoint.token_name(id) for id in best.indices.tolist()
        ]
        assert [share for _, share in ar.top] == pytest.approx(best.values.tolist(), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at": -1}, r"\b0\b"),
        ({"at": 10_000}, r"\b10001\b"),
        ({"at": "1"}, "no such token"),
        ({"record": "{"}, "JSON"),
        ({"record": ""}, "one run"),
    ],
)
def test_predictions_of_no_token_are_refused_in_one_line(mars_tiny, changes, message):
    run = decode(mars_tiny, "Name the capital of Latvia.", Request("mars")).finish()
    request = {"record": "\n".join(run.lines()), "at": 1} | changes
    with pytest.raises(ValueError, match=message) as caught:
        predictions.prediction(request)
    assert "\n" not in str(caught.value)
