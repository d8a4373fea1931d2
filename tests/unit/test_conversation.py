"""Conversations: follow-up answers equal a fresh decode of everything, with fewer computed tokens."""

import gc
import weakref
from dataclasses import replace

import pytest
from draft_models import truncated
from greedy import check_same_passes, check_tokens, generate
from random_models import ARCHITECTURES

from mars_demo.core.messages import user
from mars_demo.core.trace import Run
from mars_demo.decoding.conversation import Conversation
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.runtime.engine import TextCache
from mars_demo.ui.masks import of_pass

PROMPTS = ["How many?", "And in feet?", "Why?"]
SYSTEM = {"role": "system", "content": "Be brief."}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def answer_of_transformers(checkpoint, messages, count: int) -> list[int]:
    """Return transformers' greedy answer to a conversation in its own chat template."""
    ids = checkpoint.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    return generate(checkpoint, ids["input_ids"], count)


def requests(checkpoint):
    draft = truncated(checkpoint, 1)
    return [
        Request("ar", max_new_tokens=12),
        Request("mars", tau=1.0, max_new_tokens=12),
        Request("lossless", linear=False, max_new_tokens=12),
        Request("lossless", linear=True, max_new_tokens=12),
        Request("jacobi", max_new_tokens=12),
        Request("speculative", tau=1.0, draft=draft, max_new_tokens=12),
    ]


def test_follow_ups_equal_transformers_generate_on_the_whole_conversation(random_checkpoint):
    first = list(ARCHITECTURES).index(random_checkpoint.name)  # each architecture covers a third of them
    for request in requests(random_checkpoint)[first::3]:
        conversation, messages = Conversation(random_checkpoint, request, "Be brief."), [SYSTEM]
        for turn, prompt in enumerate(PROMPTS):
            messages.append(user(prompt))
            run = conversation.ask(prompt).finish()
            check_tokens(random_checkpoint, run, answer_of_transformers(random_checkpoint, messages, 12))
            messages.append(assistant(run.text))
            fresh = decode(random_checkpoint, request=request, messages=messages[:-1]).finish()
            less = fresh.passes[0].positions - run.passes[0].positions
            assert less == run.settings.cached_tokens
            # The common prefix with earlier turns is reused; an answer whose text has other tokens is not.
            assert less >= (turn > 0) * run.settings.prompt_tokens // 3
        assert [(m["role"], m["content"]) for m in conversation.messages] == [
            (m["role"], m["content"]) for m in messages
        ]


def test_a_mars_follow_up_equals_a_fresh_decode(mars_tiny):
    first, then = "How many meters is 14 kilometers?", "How do you spell planet backwards?"
    conversation = Conversation(mars_tiny, Request("mars", tau=0.9))
    conversation.ask(first).finish()
    run = conversation.ask(then).finish()
    fresh = decode(mars_tiny, then, Request("mars", tau=0.9), messages=run.settings.messages).finish()
    check_same_passes(run, fresh)
    # The last forward accepted the end token of the first answer; it is computed only now.
    prompt_tokens = len(encode_prompt(mars_tiny.tokenizer, run.settings.conversation))
    assert run.settings.prompt_tokens == prompt_tokens
    assert run.settings.cached_tokens > len(encode_prompt(mars_tiny.tokenizer, first))


def test_block_diffusion_does_not_reuse_bidirectional_keys(mars_tiny):
    checkpoint = replace(mars_tiny, objective="block-diffusion")
    request = Request("block-diffusion", tau=0.1, max_new_tokens=16)
    conversation = Conversation(checkpoint, request)
    conversation.ask("How many?").finish()
    run = conversation.ask("Why?").finish()
    assert run.settings.cached_tokens == 0
    check_same_passes(run, decode(checkpoint, "Why?", request, messages=run.settings.messages).finish())


def test_a_cache_does_not_keep_its_model_in_memory_and_serves_no_other(mars_tiny):
    cache, request = TextCache(), Request("ar", max_new_tokens=4)
    smaller = truncated(mars_tiny, 1)
    decode(smaller, "Hello", request, cache=cache).finish()
    model = weakref.ref(smaller.model)
    del smaller
    gc.collect()
    assert model() is None
    run = decode(mars_tiny, "Hello", request, cache=cache).finish()
    assert run.settings.cached_tokens == 0
    assert run.token_ids == decode(mars_tiny, "Hello", request).finish().token_ids


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless"])
def test_the_same_prompt_again_computes_its_last_token_only(mars_tiny, mode):
    cache, request = TextCache(), Request(mode, max_new_tokens=8)
    first, again = (decode(mars_tiny, "Hello", request, cache=cache).finish() for _ in range(2))
    assert again.settings.cached_tokens == first.settings.prompt_tokens - 1
    assert again.token_ids == first.token_ids


def test_a_stopped_answer_and_an_interrupted_forward_can_be_continued(mars_tiny):
    conversation = Conversation(mars_tiny, Request("mars", max_new_tokens=40))
    next(conversation.ask("Write a story about a fox."))
    stopped = conversation.messages
    layer = mars_tiny.model.model.layers[2]
    hook = layer.register_forward_pre_hook(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(conversation.ask("And then?"))
    finally:
        hook.remove()
    assert conversation.messages == stopped  # the turn without an answer is omitted
    run = conversation.ask("And then?").finish()
    fresh = decode(mars_tiny, "And then?", Request("mars", max_new_tokens=40), messages=stopped).finish()
    check_same_passes(run, fresh)
    assert run.settings.cached_tokens > 0


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "messages, message",
    [
        ([], "user"),
        ([user("Hi"), assistant("Hello.")], "user"),
        ([assistant("Hello."), user("Hi")], r"\b1\b"),
        ([user("Hi"), user("Hi")], r"\b2\b"),
        ([user("Hi"), SYSTEM, user("Hi")], r"\b2\b"),
        ([user("Hi"), assistant(" "), user("Hi")], r"\b2\b"),
        ([user("Hi"), assistant(None), user("Hi")], r"\b2\b"),
        ([{"role": "tool", "content": "x"}, user("Hi")], r"\b1\b.*tool"),
        ([user("Hi\ud800")], "character"),
        ([user("Hi 1 " * 400), assistant("Hello."), user("Hi")], r"conversation.*\b511\b"),
    ],
)
def test_invalid_conversations_are_refused(mars_tiny, messages, message):
    with pytest.raises(ValueError, match=message) as caught:
        decode(mars_tiny, messages=messages)
    assert "\n" not in str(caught.value)


def test_raw_prompts_and_templates_without_a_system_message_say_so(mars_tiny, monkeypatch):
    with pytest.raises(ValueError, match="raw"):
        decode(mars_tiny, "Hi", Request(raw=True), messages=[SYSTEM])
    refusing = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}"
        "{% endif %}{{ m.content }}{% endfor %}"
    )
    monkeypatch.setattr(mars_tiny.tokenizer, "chat_template", refusing)
    with pytest.raises(ValueError, match="system, user.*no system role"):
        Conversation(mars_tiny, system="Be brief.")
    assert decode(mars_tiny, "Hi", Request("ar", max_new_tokens=1)).finish().tokens == 1


def test_the_mask_picture_of_a_follow_up_includes_cached_tokens(mars_tiny):
    conversation = Conversation(mars_tiny, Request("lossless"))
    conversation.ask("How many meters is 14 kilometers?").finish()
    run = Run.read(conversation.ask("How many meters is 3 kilometers?").finish().lines())
    ids = encode_prompt(mars_tiny.tokenizer, run.settings.conversation)
    cached = run.settings.cached_tokens
    for index, step in enumerate(run.passes):
        picture = of_pass(run, index + 1, mars_tiny)
        assert len(picture.rows) == step.positions
        if index == 0:
            labels = [cell.label for cell in picture.columns[:cached]]
            assert labels == [mars_tiny.token_name(token) for token in ids[:cached]]
            assert [cell.stream for cell in picture.rows[: len(ids) - cached]] == ["new"] * (
                len(ids) - cached
            )
