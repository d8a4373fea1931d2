"""Answers under a grammar, compared with a decoder that masks logits by llguidance alone."""

import functools
import json
from dataclasses import replace
from itertools import takewhile
from types import SimpleNamespace

import greedy
import llguidance.hf
import pytest
import torch
from draft_models import truncated
from greedy import check_same_passes
from llguidance import LLMatcher
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import LogitsProcessorList, PreTrainedTokenizerFast
from without_cache import SCORES

from mars_demo.core.grammar import Grammar
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.matcher import Matcher
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling, gumbel
from mars_demo.models.chat import encode_prompt
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.ui.generation import of_controls, of_record

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "count": {"type": "integer", "maximum": 99},
        },
        "required": ["name", "count"],
        "additionalProperties": False,
    }
)
GRAMMARS = {
    "json": Grammar("json", SCHEMA),
    "compact": Grammar("json", SCHEMA, compact=True),
    "regex": Grammar("regex", r"The result is \d{1,3}(, not \d+)?\."),
    "choice": Grammar("choice", "apples\napricots\npears (green)"),
    "lark": Grammar("lark", 'start: item (", " item){2}\nitem: "red" | "green" | "blue"'),
}
CITIES = ["Paris or Prague", "Paris", "Priština"]
PROMPTS = ["Sort 3, 1 and 2", "How many meters is 3 kilometers?"]


def sources(grammar: Grammar) -> str:
    """Return the library's form of a grammar, written again."""
    if grammar.kind == "json":
        space = {"whitespace_pattern": r"(\n {0,16}| {1,4})", "key_separator": ": "}
        space = {"whitespace_flexible": False} if grammar.compact else space
        return LLMatcher.grammar_from_json_schema(grammar.text, overrides=space)
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    pattern = {"choice": r"apples|apricots|pears \(green\)"}.get(grammar.kind, grammar.text)
    return LLMatcher.grammar_from_regex(pattern.replace(r"\d", "[0-9]"))


@functools.cache
def library(tokenizer, ends: frozenset[int]):
    return llguidance.hf.from_tokenizer(tokenizer, eos_token=sorted(ends))


def allowed(checkpoint, grammar: Grammar, answer: list[int], size: int) -> torch.Tensor:
    """Return which tokens [size] may follow an answer; forced ones are the only ones."""
    matcher = LLMatcher(library(checkpoint.tokenizer, checkpoint.end_ids), sources(grammar))
    forced = matcher.compute_ff_tokens()
    matcher.consume_tokens(forced)
    for token in answer:
        if forced:
            assert token == forced.pop(0)
        else:
            assert matcher.consume_token(token)
        if not forced:
            forced = matcher.compute_ff_tokens()
            matcher.consume_tokens(forced)
    bits = matcher.compute_bitmask()
    tokens = forced[:1] or [i for i in range(8 * len(bits)) if bits[i // 8] >> i % 8 & 1]
    mask = torch.zeros(size, dtype=torch.bool)
    mask[tokens] = True
    return mask


def generate(checkpoint, prompt: str, grammar: Grammar, count: int) -> list[int]:
    """Return the answer of transformers' greedy decoding among the allowed tokens."""
    length = len(encode_prompt(checkpoint.tokenizer, prompt))

    def masked(ids, scores):
        mask = allowed(checkpoint, grammar, ids[0, length:].tolist(), scores.shape[-1])
        return scores.masked_fill(~mask, -torch.inf)

    return greedy.generate(checkpoint, prompt, count, logits_processor=LogitsProcessorList([masked]))


def matches(grammar: Grammar, text: str) -> bool:
    """Return whether a complete answer has the shape."""
    if grammar.kind == "json":
        record = json.loads(text)
        return [*record] == ["name", "count"] and isinstance(record["count"], int)
    return {"choice": text in grammar.text.splitlines(), "lark": text.count(", ") == 2}.get(
        grammar.kind, text.startswith("The result is ") and text.endswith(".")
    )


@pytest.fixture(scope="module", params=["mars-tiny", "random"])
def model(request, mars_tiny, checkpoint):
    return mars_tiny if request.param == "mars-tiny" else checkpoint


@pytest.fixture(scope="module")
def alone(model):
    """Return a function from a grammar's name and a prompt to AR's run."""

    @functools.cache
    def decoded(name: str, prompt: str) -> Run:
        return decode(model, prompt, Request("ar", max_new_tokens=40, grammar=GRAMMARS[name])).finish()

    return decoded


@pytest.mark.parametrize("name", GRAMMARS)
def test_ar_writes_what_transformers_writes_among_the_allowed_tokens(model, alone, name):
    for prompt in PROMPTS:
        run = alone(name, prompt)
        assert run.token_ids == generate(model, prompt, GRAMMARS[name], 40)
        assert run.stop == "length" or matches(GRAMMARS[name], run.text)
        assert Run.read(run.lines()).settings.grammar == GRAMMARS[name]
        assert run.tokens - run.sources["forced"] <= run.forwards <= run.tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "mars", "tau": 1.0},
        {"mode": "lossless", "linear": True},
        {"mode": "lossless", "linear": False, "window": 5},
        {"mode": "jacobi", "window": 4},
        {"mode": "speculative", "tau": 1.0},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_lossless_modes_write_the_answer_of_ar(model, alone, settings):
    if settings["mode"] == "speculative":
        settings = settings | {"draft": truncated(model, 2)}
    for name, grammar in GRAMMARS.items():
        for prompt in PROMPTS:
            request = Request(max_new_tokens=40, grammar=grammar, **settings)
            assert decode(model, prompt, request).finish().token_ids == alone(name, prompt).token_ids


@pytest.mark.parametrize("criterion", SCORES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_mars_accepts_by_the_scores_among_allowed_tokens(mars_tiny, criterion, name):
    grammar, prompt, tau, slots, limit = GRAMMARS[name], PROMPTS[0], 0.6, 4, 32
    request = Request("mars", tau, criterion, window=slots, max_new_tokens=limit, grammar=grammar)
    run = decode(mars_tiny, prompt, request).finish()
    text = encode_prompt(mars_tiny.tokenizer, prompt)
    before = run.passes[0].positions - len(text) - (slots - 1)  # tokens forced before the first forward
    ids, end = run.token_ids, 0
    for step in run.passes:
        start, end = end, end + step.accepted
        assert all(slot.source == "forced" for slot in step.slots[:before])
        start += before
        masks = [mars_tiny.mask_id] * (min(slots, limit - start) - 1)
        with torch.no_grad():
            inputs = torch.tensor([[*text, *ids[:start], *masks]])
            logits = mars_tiny.model(inputs).logits[0, len(text) + start - 1 :]
        path, scores = ids[:start], []
        for row in logits:
            if mars_tiny.end_ids.isdisjoint(path):
                row = row.masked_fill(~allowed(mars_tiny, grammar, path, len(row)), -torch.inf).double()
                path = [*path, int(row.argmax())]
                scores.append(SCORES[criterion](row.softmax(-1), path[-1]).item())
        accepted = 1 + sum(1 for _ in takewhile(lambda score: score >= tau, scores[1:]))
        own = step.slots[before:][: len(scores)]
        assert [slot.id for slot in own[:accepted]] == path[start:][:accepted]
        assert [slot.score for slot in own[:accepted]] == pytest.approx(scores[:accepted], abs=1e-4)
        assert all(slot.source == "forced" for slot in step.slots[before + accepted : step.accepted])
        before = 0


@pytest.mark.parametrize("name", GRAMMARS)
def test_samples_are_those_of_ar_among_the_allowed_tokens(mars_tiny, name):
    grammar, sampling = GRAMMARS[name], Sampling(temperature=1.3, top_p=0.9, seed=5)
    run = decode(
        mars_tiny, PROMPTS[1], Request("ar", max_new_tokens=24, sampling=sampling, grammar=grammar)
    )
    text, answer = encode_prompt(mars_tiny.tokenizer, PROMPTS[1]), []
    for token in run.finish().token_ids:
        ids = [*text, *answer]
        with torch.no_grad():
            logits = mars_tiny.model(torch.tensor([ids])).logits[0, -1]
        mask = allowed(mars_tiny, grammar, answer, len(logits))
        scores = sampling.scores(logits.masked_fill(~mask, -torch.inf)[None])[0]
        noise = gumbel(sampling.seed, len(ids) - 1, len(logits), logits.device)
        assert token == int((scores + noise).argmax())
        answer.append(token)
    for linear in (True, False):
        request = Request("lossless", max_new_tokens=24, sampling=sampling, grammar=grammar, linear=linear)
        assert decode(mars_tiny, PROMPTS[1], request).finish().token_ids == answer


def test_batches_follow_the_grammar_of_each_prompt(mars_tiny):
    for mode in ("mars", "lossless"):
        request = Request(mode, 0.9, max_new_tokens=40, grammar=GRAMMARS["json"])
        for cache in ("ragged", "block"):
            batch = decode_batch(
                mars_tiny, PROMPTS * 2, request, size=3, cache=cache, cache_block=8
            ).finish()
            fitted = replace(request, window=batch.finish().runs[0].settings.window)
            for run, prompt in zip(batch.runs, PROMPTS * 2):
                check_same_passes(run, decode(mars_tiny, prompt, fitted).finish())


def byte_level() -> PreTrainedTokenizerFast:
    """Return a tokenizer as those of Qwen2, Qwen3, Llama 3 and SmolLM2: BPE of bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=["</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CITIES * 9, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def with_byte_fallback() -> PreTrainedTokenizerFast:
    """Return a tokenizer as those of Llama 1 and 2: BPE of characters, spaces "▁", bytes for the rest."""
    tokens = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁ParisPguew", "Pa", "Par"]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    merges = [("P", "a"), ("Pa", "r")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


@pytest.mark.parametrize("make", [byte_level, with_byte_fallback])
def test_allowed_tokens_of_other_tokenizers_spell_exactly_the_choices(make):
    """Follow every way through the allowed tokens."""
    tokenizer = make()
    ends = {tokenizer.eos_token_id}
    matcher = Matcher(
        SimpleNamespace(tokenizer=tokenizer, end_ids=ends), Grammar("choice", "\n".join(CITIES))
    )

    def written(ids: tuple[int, ...] = ()) -> set[str]:
        if matcher.is_over:
            return {tokenizer.decode(ids, skip_special_tokens=True)}
        allowed = matcher.forced[:1]
        if not allowed:
            allowed = matcher.mask(torch.zeros(len(tokenizer))).isfinite().nonzero().flatten().tolist()
        texts = set()
        for token in allowed:
            with matcher.trial():
                assert matcher.advance(token)
                texts |= written((*ids, token))
        return texts

    assert written() == {*CITIES}


def test_an_answer_without_a_choice_needs_one_forward(mars_tiny):
    run = decode(mars_tiny, "Hi", Request("ar", grammar=Grammar("choice", "The only answer."))).finish()
    assert (run.text, run.stop, run.forwards) == ("The only answer.", "eos", 1)
    assert run.sources == {"forced": run.tokens}


def test_a_limit_within_forced_tokens_is_kept(mars_tiny):
    for limit in range(1, 8):
        for mode in ("ar", "mars", "lossless", "jacobi"):
            request = Request(mode, max_new_tokens=limit, grammar=GRAMMARS["compact"])
            run = decode(mars_tiny, "Hi", request).finish()
            assert (run.tokens, run.stop) == (limit, "length")


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("json", "{", "not a valid JSON schema: EOF"),
        ("json", '{"type": "strin"}', "JSON schema: Invalid type: strin"),
        ("json", '{"items":' * 3000 + "{}" + "}" * 3000, "recursion"),
        ("json", '{"$ref": "http://example.org/x"}', "JSON schema: Resource"),
        ("json", '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}', "cannot be followed"),
        ("regex", "(a", "regular expression: unclosed group"),
        ("regex", "(?=a)b", "regular expression: look-around"),
        ("choice", " \n", "choice"),
        ("lark", "start: foo", "Lark syntax: .*foo"),
    ],
)
def test_bad_and_hostile_grammars_get_a_sentence(mars_tiny, kind, text, words):
    with pytest.raises(ValueError, match=words) as error:
        decode(mars_tiny, "Hi", Request("ar", max_new_tokens=4, grammar=Grammar(kind, text))).finish()
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_modes_that_fill_gaps_say_so(mars_tiny):
    diffusion = replace(mars_tiny, objective="block-diffusion")
    with pytest.raises(ValueError, match="block-diffusion.*grammar"):
        decode(diffusion, "Hi", Request("block-diffusion", grammar=GRAMMARS["choice"]))


@pytest.mark.parametrize("limit", [5, 400])
def test_a_grammar_without_an_end_is_cut_at_the_limit(mars_tiny, limit):
    request = Request("lossless", max_new_tokens=limit, grammar=Grammar("lark", 'start: "ab" start'))
    run = Run.read(decode(mars_tiny, "Hi", request).finish().lines())
    assert (run.tokens, run.stop) == (limit, "length")
    assert max(step.accepted for step in run.passes) < 250


def test_a_race_repeats_the_grammar_of_a_record(mars_tiny):
    for grammar in (None, *GRAMMARS.values()):
        run = decode(mars_tiny, "Hi", Request("mars", max_new_tokens=2, grammar=grammar)).finish()
        generation = of_record(Run.read(run.lines()).settings)
        assert of_controls(generation.shown().values()).request("mars", 0.9).grammar == grammar
