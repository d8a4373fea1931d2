"""The layer lens, compared with the model's output and with transformers' hidden states."""

import json
from types import SimpleNamespace

import pytest
import torch
from random_models import ARCHITECTURES, random_model
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    Olmo2Config,
    OPTConfig,
    set_seed,
)

from mars_demo.core import layout as layouts
from mars_demo.core.trace import read_runs
from mars_demo.decoding import lens as lenses
from mars_demo.decoding.decode import decode
from mars_demo.decoding.lens import Lens, look, slot_rows
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import encode_prompt
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.show import recordings
from mars_demo.ui import forwards, masks

PAST, MASK = list(range(20, 33)), 2
LAYOUTS = {
    "ar": layouts.window([11], 0, MASK, len(PAST)),
    "window": layouts.window([11, 12, 13], 4, MASK, len(PAST)),
    "lossless": layouts.verification([11], [12, 13], 3, MASK, len(PAST)),
    "linear": layouts.verification([11], [12, 13], 3, MASK, len(PAST), linear=True),
}
SMALL = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 600}
GATED = {**SMALL, "intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8}
LIMITED = {"max_position_embeddings": 96, "initializer_range": 0.3}
OTHERS = {
    "gemma": GemmaConfig(**GATED, **LIMITED),  # scaled embeddings, tied to the head
    "gemma2": Gemma2Config(**GATED, **LIMITED, final_logit_softcapping=None, sliding_window=96),
    "olmo2": Olmo2Config(
        **SMALL, **LIMITED, intermediate_size=64, num_key_value_heads=2, bos_token_id=None
    ),
    "gpt2": GPT2Config(n_embd=32, n_head=4, n_layer=3, vocab_size=600, n_positions=96),
    "gpt_neox": GPTNeoXConfig(**SMALL, **LIMITED, intermediate_size=64),
    "opt": OPTConfig(**SMALL, ffn_dim=64, max_position_embeddings=96, word_embed_proj_dim=32),
}


def made(config):
    set_seed(7)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False).eval()


@pytest.mark.parametrize(
    "family", [*ARCHITECTURES, *(pytest.param(o, marks=pytest.mark.full) for o in OTHERS)]
)
def test_the_last_layer_equals_the_output_of_the_model_bit_by_bit(family, tokenizer):
    """Include model families with other names, norms and embeddings."""
    model = made(OTHERS[family]) if family in OTHERS else random_model(family, tokenizer)
    for shape, layout in LAYOUTS.items():
        engine, rows = Engine(TransformersDecoder(model)), slot_rows(layout, 0)
        engine.forward(layouts.causal(PAST))
        engine.commit(len(PAST))
        logits = engine.forward(layout, rows[0])
        best, tokens = logits[[row - rows[0] for row in rows]].softmax(-1).max(-1)
        cells = look(model, layout, PAST, verified=0).layers[-1]
        assert [cell.token for cell in cells] == tokens.tolist(), shape
        assert [cell.probability for cell in cells] == best.tolist(), shape


def pictures(checkpoint, run):
    """Yield the forwards of a run with their pictures."""
    ids = encode_prompt(checkpoint.tokenizer, run.settings.conversation)
    for index, step in enumerate(run.passes):
        yield step, masks.of_pass(run, index, str, ids, checkpoint.mask_id)


def by_hand(checkpoint, picture):
    """Return the logits of each layer of a forward, from transformers' hidden states of the whole text."""
    past, new = len(picture.past), picture.layout.ids.shape[1]
    visible = torch.ones(past + new, past + new, dtype=torch.bool).tril()
    visible[past:] = picture.layout.visible[0]
    with torch.inference_mode():
        hidden = checkpoint.model(
            input_ids=torch.tensor([[*picture.past, *picture.layout.ids[0].tolist()]]),
            position_ids=torch.tensor([[*range(past), *picture.layout.positions[0].tolist()]]),
            attention_mask=visible[None, None],
            output_hidden_states=True,
            use_cache=False,
        ).hidden_states
        norm, head = checkpoint.model.model.norm, checkpoint.model.lm_head
        states = [*map(norm, hidden[:-1]), hidden[-1]]  # transformers normalizes the last one
        return [head(state)[0, past:] for state in states]


@pytest.mark.parametrize(("mode", "linear"), [("mars", None), ("lossless", False), ("lossless", True)])
def test_every_cell_is_the_head_of_the_norm_of_the_layer(random_checkpoint, mode, linear):
    request_ = Request(mode, tau=0.5, linear=linear, max_new_tokens=12)
    run = decode(random_checkpoint, "How many apples?", request_).finish()
    for step, picture in pictures(random_checkpoint, run):
        expected = by_hand(random_checkpoint, picture)
        tokens, verified = forwards.slots_of(step)
        lens = look(random_checkpoint.model, picture.layout, picture.past, tokens, verified)
        rows = slot_rows(picture.layout, verified)
        assert len(lens.layers) == 4 and {len(cells) for cells in lens.layers} == {len(rows)}
        for cells, logits in zip(lens.layers, expected):
            p = logits[rows].softmax(-1)
            for cell, row, token in zip(cells, p, lens.tokens):
                torch.testing.assert_close(cell.wanted, row[token].item(), rtol=1e-3, atol=1e-5)
                torch.testing.assert_close(cell.probability, row.max().item(), rtol=1e-3, atol=1e-5)
                torch.testing.assert_close(row[cell.token], row.max(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "linear"), [("ar", True), ("mars", True), ("lossless", True), ("lossless", False)]
)
def test_the_last_layer_agrees_with_the_record(mars_tiny, mode, linear):
    """Compare tokens and scores slot by slot; n-gram drafts are not slots of masks."""
    prompt = "How many meters is 3 kilometers? " * 3
    request_ = Request(mode, window=1 if mode == "ar" else 3, linear=linear)
    run = decode(mars_tiny, prompt, request_).finish()
    for step, picture in pictures(mars_tiny, run):
        tokens, verified = forwards.slots_of(step)
        lens = look(mars_tiny.model, picture.layout, picture.past, tokens, verified)
        assert lens.verified == (step.verified or 0)
        for slot, token, cell in zip(step.slots, tokens, lens.layers[-1]):
            if token is not None:
                assert (cell.token, cell.rank) == (slot.id, 1)
                assert cell.probability == pytest.approx(slot.score, abs=1e-4)
        unrecorded = look(mars_tiny.model, picture.layout, picture.past)
        assert unrecorded.verified == lens.verified and unrecorded.layers[-1] == lens.layers[-1]


def test_the_lens_shows_the_probability_of_sampled_tokens(mars_tiny):
    request_ = Request("mars", sampling=Sampling(temperature=2.0, seed=3), max_new_tokens=24)
    run = decode(mars_tiny, "How many apples?", request_).finish()
    others = 0
    for step, picture in pictures(mars_tiny, run):
        lens = look(mars_tiny.model, picture.layout, picture.past, *forwards.slots_of(step))
        assert lens.tokens == [slot.id for slot in step.slots]
        for slot, cell in enumerate(lens.layers[-1]):
            differs = cell.token != lens.tokens[slot]
            others += differs
            assert (lens.settled(slot) is None) == differs == (cell.rank > 1)
    assert others


def test_a_token_is_settled_from_the_layer_that_keeps_it_first():
    def lens(*ranks: int) -> Lens:
        return Lens([5], 0, [[lenses.Cell(5 if rank == 1 else 6, 0.5, 0.1, rank)] for rank in ranks])

    for ranks, settled in (
        ((9, 1, 4, 1, 1), 3),
        ((1, 1, 1), 0),
        ((4, 3, 1), 2),
        ((1, 1, 2), None),
        ((2, 2, 2), None),
    ):
        assert lens(*ranks).settled(0) == settled, ranks


# ------------------------------------------------------------------------ refused models and forwards


@pytest.mark.parametrize(
    ("layout", "past", "tokens", "words"),
    [
        (layouts.window([10**6], 2, MASK, 13), PAST, [], "vocabulary"),
        (LAYOUTS["window"], [*PAST[:-1], 2**31 - 1], [], "vocabulary"),
        (LAYOUTS["window"], PAST, [5, 2**31 - 1], "vocabulary"),
        (LAYOUTS["window"], PAST, [-1], "vocabulary"),
        (layouts.window([11], 2, MASK, 600), [12] * 600, [], r"\b603\b.*\b256\b"),
        (layouts.window([11], 2, MASK, 254), [12] * 254, [], r"\b257\b.*\b256\b"),
    ],
)
def test_a_forward_that_does_not_fit_the_model_is_refused(checkpoint, layout, past, tokens, words):
    with pytest.raises(ValueError, match=words):
        look(checkpoint.model, layout, past, tokens)


def test_large_lenses_are_refused_before_computing(checkpoint, monkeypatch):
    monkeypatch.setattr(lenses, "MOST_LOGITS", 4 * checkpoint.model.config.vocab_size)
    with pytest.raises(ValueError, match=r"\b4\b.*\b5\b"):
        look(checkpoint.model, LAYOUTS["window"], PAST)


def test_a_model_without_a_final_norm_is_refused():
    model = made(OPTConfig(**SMALL, ffn_dim=64, max_position_embeddings=96, do_layer_norm_before=False))
    with pytest.raises(ValueError, match="opt.*norm"):
        look(model, LAYOUTS["window"], PAST)


def test_a_model_with_an_unknown_step_after_its_norm_is_refused(tokenizer):
    class Doubling(type(random_model("llama", tokenizer).model)):
        def forward(self, *arguments, **named):
            output = super().forward(*arguments, **named)
            output.last_hidden_state = output.last_hidden_state * 2
            return output

    model = random_model("llama", tokenizer)
    model.model.__class__ = Doubling
    with pytest.raises(ValueError, match="(?i)lens"):
        look(model, LAYOUTS["window"], PAST)


# ------------------------------------------------------------------------------------------ the page


@pytest.fixture(scope="module")
def tab():
    from mars_demo.ui import options
    from mars_demo.ui.hosting.registry import MODELS
    from mars_demo.ui.tabs import mask

    MODELS.serve(options.read(["--only", "--model", "mars-tiny", "--model", "ar-tiny"]))
    return mask


def shown(tab, record: str, number: int = 1) -> dict:
    """Return what the lens of the page shows of a forward on the stage."""
    *_, lens, _ = tab.show_pass(True, SimpleNamespace(record=record, number=number))
    return json.loads(lens) if isinstance(lens, str) else lens


def test_the_lens_uses_the_dequantized_weights_of_a_quantized_model(tab):
    """Use the dequantized weights: quantized decoding has no layers to inspect. The caption says so."""
    from mars_demo.ui import options
    from mars_demo.ui.hosting.registry import MODELS
    from mars_demo.ui.racing import decode

    MODELS.serve(options.read(["--only", "--model", "mars-tiny", "--dtype", "int8"]))
    checkpoint = MODELS.load("mars-tiny")
    run = decode(checkpoint, "How many apples?", Request("mars", max_new_tokens=12)).finish()
    assert checkpoint.quantized
    lens = shown(tab, "\n".join(run.lines()), 2)
    assert "int8" in lens["caption"] and "float32" in lens["caption"]
    assert len(lens["layers"]) == 5 and len(lens["slots"]) == len(run.passes[1].slots)
    assert lens["slots"][0]["label"] == run.passes[1].slots[0].text


def test_hostile_records_are_refused(tab):
    run = next(
        run
        for run in read_runs(recordings.recording("bus").splitlines()[1:])
        if run.settings.mode == "mars"
    )
    lines = [json.loads(line) for line in run.lines()]

    def changed(number: int, **fields) -> str:
        new = [dict(line) for line in lines]
        new[number] |= fields
        return "\n".join(map(json.dumps, new))

    slots = lines[1]["slots"]
    for token in (10_000, 2**31 - 1):
        strange = [{**slots[0], "id": token}, *slots[1:]]
        assert "vocabulary" in shown(tab, changed(1, slots=strange))["error"]  # in the output
        assert "vocabulary" in shown(tab, changed(1, slots=strange), 2)["error"]  # in the text before
    wide = shown(tab, changed(1, positions=1000))
    assert "1000" in wide["error"] and "512" in wide["error"]
    many = shown(tab, changed(1, slots=slots * 20))
    assert len(many["slots"]) == 9  # as many as the positions of the forward
    committed = SimpleNamespace(record=changed(-1, commits=1), number=len(run.passes) + 1)
    *_, picture, _, _ = tab.show_pass(True, committed)  # a commit is a forward without a pass
    assert f"no forward {committed.number}" in json.loads(picture)["error"]
    few = shown(tab, changed(1, slots=slots[:1], accepted=1))
    assert len(few["slots"]) == 9 and few["slots"][0]["settled"] is not None
