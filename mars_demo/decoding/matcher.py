"""The state of an answer in its grammar; the only module that knows llguidance."""

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mars_demo.core.grammar import KINDS, Grammar
from mars_demo.models.checkpoint import Checkpoint

# The white space of JSON: a line's indentation or some spaces, since small models run away in free space,
# and a space after each name, as they have learned it.
SPACE = {"whitespace_pattern": r"(\n {0,16}| {1,4})", "key_separator": ": "}
ERROR, LONGEST_REASON = "error: ", 200  # of the library: before the reason of an error, and its characters
# Classes of patterns, which the library would read as those of Unicode.
ASCII = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]"}
TOKENIZERS, GRAMMARS = 8, 64  # cached ones


class GrammarError(ValueError):
    """A grammar that became too large for its library within an answer."""


class Matcher:
    """The state of an answer in its grammar: allowed tokens, forced tokens, and the way back.

    forced: the tokens that must follow, in their canonical tokenization; they need no forward.

    Raises:
        ValueError: if the grammar is invalid or too large, or the tokenizer is not supported.
    """

    def __init__(self, checkpoint: Checkpoint, grammar: Grammar):
        self._ends = checkpoint.end_ids
        own = checkpoint.tokenizer.eos_token_id
        self._end = own if own in self._ends else min(self._ends)
        tokenizer = _tokenizer(checkpoint.tokenizer, tuple(sorted(self._ends)))
        self._matcher = _compiled(tokenizer, grammar).deep_copy()
        self._consumed = 0  # tokens, with the forced ones
        self.is_over = False  # whether the end token has come
        self.forced: list[int] = []
        self._force()
        if not self.forced:
            self._matcher.compute_bitmask()  # finds most errors before the first forward
            self._check()

    def mask(self, logits: Tensor) -> Tensor:
        """Return logits [vocabulary] on a CPU with -∞ for the tokens that the grammar does not allow."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        # In NumPy: torch would start threads.
        allowed = np.unpackbits(bits, count=len(logits), bitorder="little").view(bool)
        return torch.from_numpy(np.where(allowed, logits.numpy(), np.float32(-np.inf)))

    def advance(self, token: int) -> bool:
        """Take the next token; return whether the grammar allows it, without which nothing changes."""
        if self.is_over:
            return False
        if self.forced:
            if token != self.forced[0]:
                return False
            self.forced = self.forced[1:]
        elif token in self._ends:
            if not self._matcher.is_accepting():
                return False
        elif not self._consume([token]):
            return False
        self.is_over = token in self._ends
        if not self.is_over and not self.forced:
            self._force()
        return True

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Return to the present state at the end of the context."""
        consumed, forced, is_over = self._consumed, self.forced, self.is_over
        try:
            yield
        finally:
            self._matcher.rollback(self._consumed - consumed)
            self._consumed, self.forced, self.is_over = consumed, forced, is_over

    def _consume(self, tokens: list[int]) -> bool:
        if self._matcher.validate_tokens(tokens) < len(tokens):
            self._check()
            return False
        self._matcher.consume_tokens(tokens)
        self._consumed += len(tokens)
        return True

    def _force(self) -> None:
        """Consume the tokens that must follow; at the end of the grammar that is the end token."""
        self.forced = self._matcher.compute_ff_tokens()
        self._check()
        if self.forced:
            self._consume(self.forced)
        elif self._matcher.is_stopped():
            self.forced = [self._end]

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarError(f"The grammar cannot be followed: {_reason(self._matcher.get_error())}.")


@functools.lru_cache(TOKENIZERS)
def _tokenizer(tokenizer: PreTrainedTokenizerBase, ends: tuple[int, ...]) -> LLTokenizer:
    try:
        return from_tokenizer(tokenizer, eos_token=list(ends))
    except ValueError as error:
        raise ValueError(f"This model's tokenizer cannot follow a grammar: {_reason(error)}.") from error


@functools.lru_cache(GRAMMARS)
def _compiled(tokenizer: LLTokenizer, grammar: Grammar) -> LLMatcher:
    check(grammar)
    return LLMatcher(tokenizer, _source(grammar), log_level=0)


def check(grammar: Grammar) -> None:
    """Check a grammar without a model.

    Raises:
        ValueError: if it is invalid.
    """
    try:
        problem = LLMatcher.validate_grammar(_source(grammar))
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ValueError(f"This is not a valid {KINDS[grammar.kind]}: {_reason(problem)}.")


def _source(grammar: Grammar) -> str:
    """Return the grammar in the library's own form."""
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    if grammar.kind == "json":
        space = {"whitespace_flexible": False} if grammar.compact else SPACE
        return LLMatcher.grammar_from_json_schema(grammar.text, overrides=space)
    pattern = re.sub(r"\\.", lambda escape: ASCII.get(escape[0], escape[0]), grammar.text)
    if grammar.kind == "choice":
        choices = [choice.strip() for choice in grammar.text.splitlines() if choice.strip()]
        if not choices:
            raise ValueError("it has no choice")
        pattern = "|".join(map(re.escape, choices))
    return LLMatcher.grammar_from_regex(pattern)


def _reason(error: object) -> str:
    """Return the library's reason as the end of a sentence."""
    lines = str(error).strip().splitlines() or ["unknown reason"]
    reason = next((line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)), lines[0])
    return reason[:LONGEST_REASON].rstrip(". ")
