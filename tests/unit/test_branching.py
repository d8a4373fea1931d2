"""Branches: continuing an answer from another token equals decoding that prefix afresh."""

from dataclasses import replace

import gradio as gr
import pytest
import torch
from draft_models import trained_for, truncated
from greedy import check_same_passes
from random_models import ARCHITECTURES

from mars_demo.core.messages import Encoded
from mars_demo.core.trace import Run, read_runs
from mars_demo.decoding.branching import branch, prediction, request_of
from mars_demo.decoding.decode import decode, drive, prepare
from mars_demo.decoding.request import Branch, Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import encode_after, encode_prompt
from mars_demo.models.runtime.engine import Engine, TextCache
from mars_demo.ui import branches

PROMPT = "How many?"


def requests(checkpoint) -> list[Request]:
    return [
        Request("ar", max_new_tokens=24),
        Request("mars", tau=0.05, max_new_tokens=24),
        Request("mars", tau=0.05, criterion="margin", max_new_tokens=24),
        Request("lossless", linear=False, max_new_tokens=24),
        Request("lossless", linear=True, max_new_tokens=24),
        Request("jacobi", max_new_tokens=24),
        Request("speculative", tau=0.5, draft=truncated(checkpoint, 1), max_new_tokens=24),
        Request("mars", tau=0.05, sampling=Sampling(seed=3), max_new_tokens=24),
        Request("block-diffusion", tau=0.05, window=4, max_new_tokens=24),
    ]


def afresh(checkpoint, run: Run, request: Request, ids: list[int]) -> Run:
    """Decode the same prefix as a prompt, without a cache."""
    prefix = encode_prompt(checkpoint.tokenizer, run.settings.conversation) + ids
    shorter = replace(request, branch=None, max_new_tokens=request.max_new_tokens - len(ids))
    request = shorter.fitted(checkpoint)
    settings, *parts = prepare(checkpoint, Encoded(prefix, PROMPT), request)
    return Run(settings, drive(Engine(checkpoint.decoder), *parts, request)).finish()


def test_a_branch_equals_decoding_its_prefix_afresh(random_checkpoint):
    first = list(ARCHITECTURES).index(random_checkpoint.name)  # each architecture covers a third of them
    for request in requests(random_checkpoint)[first::3]:
        checkpoint, cache = trained_for(random_checkpoint, request.mode), TextCache()
        run = decode(checkpoint, PROMPT, request, cache=cache).finish()
        at = run.tokens // 2
        other = next(
            token
            for slot in run.passes[-1].slots
            for token in slot.candidates
            if token != run.token_ids[at] and token not in checkpoint.end_ids
        )
        chosen = branch(checkpoint, run, at, [other])
        goes_on = decode(checkpoint, PROMPT, replace(request, branch=chosen), cache=cache).finish()
        assert goes_on.token_ids[: at + 1] == [*run.token_ids[:at], other]
        fresh = afresh(checkpoint, run, request, [*run.token_ids[:at], other])
        check_same_passes(goes_on, fresh)
        if checkpoint is random_checkpoint:  # the cache up to the branch is reused
            assert goes_on.settings.cached_tokens == goes_on.settings.prompt_tokens + at
        for one, two in zip(goes_on.passes, fresh.passes):
            if [slot.id for slot in one.slots] != [slot.id for slot in two.slots]:
                break  # the texts differ after a tie
            scores = [[slot.score for slot in step.slots] for step in (one, two)]
            assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-5), request


def test_a_record_contains_its_branch_and_a_branch_of_that(mars_tiny):
    request = Request("mars", tau=0.6)
    run = decode(mars_tiny, "Name the capital of Latvia.", request).finish()
    first = decode(
        mars_tiny, run.settings.prompt, replace(request, branch=branch(mars_tiny, run, 2, " no"))
    ).finish()
    again = branch(mars_tiny, first, 4, " yes, but")
    second = decode(mars_tiny, run.settings.prompt, replace(request, branch=again)).finish()
    runs = read_runs("\n".join(line for one in (run, first, second) for line in one.lines()).split("\n"))
    assert [one.settings.branch and one.settings.branch["of"] for one in runs] == [
        None,
        run.settings.run,
        first.settings.run,
    ]
    assert [one.text for one in runs] == [run.text, first.text, second.text]
    assert [one.token_ids for one in runs] == [run.token_ids, first.token_ids, second.token_ids]
    assert first.token_ids[:2] == run.token_ids[:2] and second.token_ids[:4] == first.token_ids[:4]
    prefix = "".join(text for _, text in second.settings.given)
    assert prefix.endswith(" yes, but") and second.text.startswith(prefix)
    assert second.tokens == len(second.token_ids) - len(again.ids)  # only these were accepted by a forward
    assert list(runs[2].lines()) == list(second.lines())


def test_the_request_is_restored_from_a_record(mars_tiny):
    sampling = Sampling(0.5, seed=2)
    request = Request("mars", tau=0.6, criterion="margin", max_new_tokens=20, sampling=sampling)
    run = decode(mars_tiny, "Name the capital of Latvia.", request).finish()
    assert request_of(Run.read(run.lines())) == replace(request, window=9)


def test_the_ar_prediction_is_the_distribution_of_the_model(random_checkpoint):
    run = decode(random_checkpoint, PROMPT, Request("mars", tau=0.05, max_new_tokens=16)).finish()
    ids = encode_prompt(random_checkpoint.tokenizer, PROMPT)
    with torch.no_grad():
        logits = random_checkpoint.model(torch.tensor([ids + run.token_ids])).logits[0].double()
    for at, token in enumerate(run.token_ids):
        p = logits[len(ids) + at - 1].softmax(-1)
        ar = prediction(random_checkpoint, run, at)
        assert ar.probability == pytest.approx(p[token].item(), rel=1e-4)
        assert ar.rank == 1 + (p > p[token]).sum()
        assert [id for _, _, id in ar.top] == p.topk(5).indices.tolist()


@pytest.mark.parametrize(
    ("at", "instead", "message"),
    [
        (-1, " a", r"\b0\b"),
        (10_000, " a", r"\b10001\b"),
        (2, [], "token"),
        (2, "", "token"),
    ],
)
def test_impossible_branches_are_refused(mars_tiny, at, instead, message):
    run = decode(mars_tiny, "Name the capital of Latvia.", Request("mars")).finish()
    with pytest.raises(ValueError, match=message):
        branch(mars_tiny, run, at, instead)


def test_tokens_that_cannot_begin_an_answer_are_refused(mars_tiny):
    def begin(ids, **more):
        return decode(mars_tiny, "Name the capital of Latvia.", Request(branch=Branch(tuple(ids)), **more))

    with pytest.raises(ValueError, match="9999999"):
        begin([9_999_999])
    with pytest.raises(ValueError, match="token"):
        begin([5, next(iter(mars_tiny.end_ids))])
    with pytest.raises(ValueError, match=r"\b3\b"):
        begin([5, 6, 7], max_new_tokens=3)
    with pytest.raises(ValueError, match=rf"\b{mars_tiny.context - 1}\b"):
        begin([5] * mars_tiny.context)


@pytest.mark.parametrize("text", [" Riga", "Riga", "\nRiga", "<|im_end|>", " <mask>", "é", "日本", "  two"])
def test_a_typed_text_appears_exactly(mars_tiny, text):
    before = encode_prompt(mars_tiny.tokenizer, "The capital is")[:3]
    ids = encode_after(mars_tiny.tokenizer, before, text)
    decoded = mars_tiny.tokenizer.decode([*before, *ids], clean_up_tokenization_spaces=False)
    assert decoded.endswith(text) and not mars_tiny.end_ids & {*ids}


# ------------------------------------------------------------------------- requests of the page


@pytest.fixture(scope="module")
def records(mars_tiny) -> list[str]:
    runs = [
        decode(mars_tiny, "Name the capital of Latvia.", Request(mode)).finish() for mode in ("ar", "mars")
    ]
    return ["".join(f"{line}\n" for line in run.lines()) for run in runs]


def requested(**fields) -> branches.BranchRequest:
    return branches.branch_request(gr.EventData(None, fields))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": "text"}, r"\b6\b"),
        ({"records": ["{"], "of": 0}, "JSON"),
        ({"of": 2}, "token"),
        ({"at": "1"}, "token"),
        ({"instead": None}, None),
        ({"instead": "\ud800"}, "character"),
        ({"instead": "a" * 20_001}, "20000"),
    ],
)
def test_invalid_branches_are_refused_in_one_line(records, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        requested(**{"records": records, "of": 1, "at": 1, "instead": " x", "replace": False} | changes)
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_stage_has_room_for_six_runs(records):
    full = [records[0]] * branches.MOST_LANES
    with pytest.raises(ValueError):
        requested(records=full, of=0, at=1, instead=" x", replace=False)
    assert requested(records=full, of=0, at=1, instead=" x", replace=True).kept
    with pytest.raises(ValueError):
        requested(records=["".join(records)], of=0, at=1, instead=" x", replace=True)
