"""A writer of GGUF files in Q8_0: 8 bits per weight, and a scale for every 32 weights of a row.

llama.cpp, transformers and this project can read them.
"""

import shutil
from pathlib import Path

from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, SpecialVocab, TokenType
from gguf.quants import quantize
from transformers import PreTrainedTokenizerBase

from mars_demo.models import gguf
from mars_demo.models.architectures import LLAMA_LIKE, head_width
from mars_demo.models.checkpoint import Checkpoint

KIND = GGMLQuantizationType.Q8_0  # the format of matrices; norms stay float32
LARGEST = 95_000_000  # bytes of tensors in a file, because git hosts reject files over 100 MB
PRE_TOKENIZER = "smollm"  # llama.cpp's name of SmolLM2's pre-tokenizer


def write_q8_0(checkpoint: Checkpoint, output: Path, largest: int = LARGEST) -> list[Path]:
    """Write a checkpoint with weights in Q8_0 to the folder `output`; return the weight files.

    They are NAME-Q8_0.gguf, with the folder's name, or NAME-Q8_0-00001-of-00002.gguf and so on. Config,
    tokenizer, licence and decoder are copied, but no training logs or states.

    Raises:
        ValueError: if the model has other layers than Llama's.
    """
    model, config = checkpoint.model, checkpoint.model.config
    if config.model_type not in LLAMA_LIKE:
        raise ValueError(f"Only {', '.join(LLAMA_LIKE)} can be written as Q8_0, not {config.model_type}.")
    output.mkdir(parents=True, exist_ok=True)
    for item in checkpoint.source.iterdir():
        if item.suffix in (".json", ".jinja") or item.name == "LICENSE":
            shutil.copy(item, output)
    if (custom := checkpoint.source / "custom_generate").exists():
        shutil.copytree(custom, output / custom.name, dirs_exist_ok=True)
    writer = GGUFWriter(output / f"{output.name}-Q8_0.gguf", config.model_type, split_max_size=largest)
    writer.add_name(output.name)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_width(config))
    writer.add_value_length(head_width(config))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(head_width(config))
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    _add_tokenizer(writer, checkpoint.tokenizer, config.vocab_size, output)
    weights = model.state_dict()
    for name, stored_name in gguf.tensor_names(config).items():
        weight = weights[name]
        kind = KIND if weight.ndim > 1 else GGMLQuantizationType.F32
        array = quantize(weight.float().numpy(), kind)
        if heads := gguf.rotated_heads(name, config):
            # GGUF interleaves the two halves of a head's rows.
            array = array.reshape(heads, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(stored_name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(output.glob("*.gguf"))


def _add_tokenizer(
    writer: GGUFWriter, tokenizer: PreTrainedTokenizerBase, size: int, folder: Path
) -> None:  # fmt: skip
    """Add a byte-level BPE tokenizer with its chat template, for llama.cpp."""
    tokens = {id: token for token, id in tokenizer.get_vocab().items()}
    kinds = dict.fromkeys(tokens, TokenType.NORMAL)
    for id, token in tokenizer.added_tokens_decoder.items():
        kinds[id] = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list([tokens.get(id, f"[PAD{id}]") for id in range(size)])
    writer.add_token_types([kinds.get(id, TokenType.UNUSED) for id in range(size)])
    SpecialVocab(folder, load_merges=True, n_vocab=size).add_to_gguf(writer, quiet=True)
