"""The recipe of the bundled tiny models: a tokenizer, a fresh Llama, AR training, then MARS training.

`python -m mars_demo recipe tiny` makes `ar-tiny` and `mars-tiny`. If interrupted, run it again to
resume.
"""

import itertools
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.trainer_utils import set_seed

from mars_demo import tasks
from mars_demo.core.assets import ASSETS
from mars_demo.core.names import BASE, TINY
from mars_demo.models.load import load_checkpoint
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

VOCABULARY = 4096
PAD, END, MASK, SYSTEM, USER, ASSISTANT = (
    "<|pad|>", "<|end|>", "<|mask|>", "<|system|>", "<|user|>", "<|assistant|>",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_ALL = {"batch_tokens": 2048, "weight_decay": 0.1}
# Each stage starts from the checkpoint of the previous one. The second has half the learning rates: with
# the same ones, it lost 1.5 points of the first stage's accuracy.
STAGES = {
    BASE: {
        "objective": "ar", "max_steps": 6000, "learning_rate": 3e-3, "muon_learning_rate": 6e-3, **_ALL
    },
    TINY: {
        "max_steps": 2400, "seed": 1, "learning_rate": 1.5e-3, "muon_learning_rate": 3e-3, **_ALL
    },
}  # fmt: skip


def train_tokenizer(examples: int = 60_000) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer of the training split, with a token per digit."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=[PAD, END, MASK, SYSTEM, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sample = itertools.islice(tasks.examples(tasks.TASKS, "train", seed=0), examples)
    bpe.train_from_iterator((f"{e.prompt}\n{e.answer}" for e in sample), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        mask_token=MASK,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def fresh_model(tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> LlamaForCausalLM:
    set_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=-(-len(tokenizer) // 64) * 64,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.06,
            rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def make(output: Path = ASSETS) -> None:
    """Train both models into folders in `output`; finished ones are kept."""
    base = None
    for name, settings in STAGES.items():
        if not (output / name / "config.json").exists():
            if base is None:
                tokenizer = train_tokenizer()
                model = fresh_model(tokenizer)
            else:
                loaded = load_checkpoint(str(output / base), device="cpu")
                model, tokenizer = loaded.model, loaded.tokenizer
            config = MarsConfig(str(output / name), **settings)
            train(MarsTrainer(model, config, processing_class=tokenizer), resume=True)
        base = name
