"""Uploaded bases: a zip of a checkpoint's folder, looked through before anything is built of it.

Nothing that the zip says is believed: sizes are counted while it is unpacked, and the config may describe
only what the headers of the weights hold. Two of a checkpoint's files are programs: the chat template, and
in `tokenizer.json` the rules (patterns, replacements) by which text is split. They could run for hours, so
only those of the models that this app comes with or serves are accepted.
"""

from __future__ import annotations

import json
import math
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from mars_demo.assets import ASSETS
from mars_demo.limits import LIMITS
from mars_demo.models.names import bundled
from mars_demo.models.pool import library
from mars_demo.ui import models, owned
from mars_demo.ui.storage import NoRoom, pathless, storage

FILES = (  # of a checkpoint; others, such as adapters that name another model, stay in the zip
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
)
KINDS = ("llama", "qwen2", "qwen3")  # of models, as docs/models.md names them
TOKENIZERS = (  # classes that compute as tokenizer.json says
    "TokenizersBackend",
    "PreTrainedTokenizerFast",
    "LlamaTokenizerFast",
    "Qwen2TokenizerFast",
    "GPT2TokenizerFast",
)
NUMBERS = ("F64", "F32", "F16", "BF16")
LARGEST_LISTING = 1 << 20  # bytes of a zip's list of files
LARGEST_HEADER = 8 << 20  # bytes of a safetensors file's list of tensors
LARGEST_JSON = 64 << 20  # bytes; a tokenizer of 256,000 tokens takes half of that
CHUNK = 1 << 20


def adopt(archive: str) -> str:
    """Take an uploaded zip of a checkpoint's folder, as this app makes them, for a base of the visitor's;
    its name. The zip itself is removed.

    Raises:
        ValueError: in one sentence, if it is no such thing or there is no room for it.
    """
    path = Path(archive)
    try:
        if not LIMITS.upload:
            raise ValueError("Uploading is switched off here; run the app on your own machine to upload.")
        if _size(path) > LIMITS.upload << 20:
            raise ValueError(f"{path.name} is larger than {LIMITS.upload} MiB, the limit here.")
        model = owned.take_place(path.stem, is_trained=False)
        try:
            _take(path, model.folder)
            model.ready = True
            return model.name
        finally:
            if not model.ready:
                owned.drop(model)
    finally:
        path.unlink(missing_ok=True)


def _size(archive: Path) -> int:
    try:
        return archive.stat().st_size
    except OSError as error:  # another visitor had uploaded the same, which was removed after use
        raise ValueError(f"{archive.name} is no longer there; upload it again.") from error


def _take(archive: Path, folder: Path) -> None:
    """
    Raises:
        ValueError: in one sentence that names the zip.
    """
    loading, _, _ = library()
    try:
        with pathless(folder, "the checkpoint"):
            unpack(archive, folder)
            require_known_programs(folder)
            require_modest(folder)
            _require_tokenizer(loading.load_checkpoint(str(folder), device="cpu"))
    except (NoRoom, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # files from elsewhere break in many ways; a panic is no Exception
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{archive.name} is not a zipped checkpoint: {reason}") from error


# ------------------------------------------------------------------------------------- the zip


def unpack(archive: Path, folder: Path) -> None:
    """A checkpoint's files from a zip into a folder, those at the zip's top.

    Raises:
        ValueError: if it is broken, encrypted, too large, or has a file twice or as a link.
    """
    try:
        _require_short_listing(archive)
        with zipfile.ZipFile(archive) as packed:
            entries = [entry for entry in packed.infolist() if _is_wanted(entry.filename)]
            _require_plain(entries)
            left = LIMITS.unpacked << 20
            for entry in entries:
                left = _copy(packed, entry, folder / entry.filename, left)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error) as error:
        raise ValueError(f"the zip is damaged ({error}).") from error


def _is_wanted(name: str) -> bool:
    return name in FILES or ("/" not in name and name.startswith("model") and name.endswith(".safetensors"))


def _require_short_listing(archive: Path) -> None:
    """Refuse a zip whose list of files alone would take much memory. Python reads all of it at once, as
    long as the zip's last record says that it is."""
    with archive.open("rb") as file:
        last = zipfile._EndRecData(file)
    if last is None:
        raise zipfile.BadZipFile("no zip file")
    if last[zipfile._ECD_SIZE] > LARGEST_LISTING:
        raise ValueError("the zip lists more files than a checkpoint has.")


def _require_plain(entries: list[zipfile.ZipInfo]) -> None:
    if sum(entry.file_size for entry in entries) > LIMITS.unpacked << 20:
        raise ValueError(f"unpacked it is larger than {LIMITS.unpacked} MiB, the limit here.")
    storage().require(sum(entry.file_size for entry in entries))
    names = [entry.filename for entry in entries]
    for entry in entries:
        if entry.flag_bits & 1:
            raise ValueError("the zip is encrypted.")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise ValueError(f"{entry.filename} is a link.")
        if names.count(entry.filename) > 1:
            raise ValueError(f"{entry.filename} is in it twice.")
        if not entry.filename.endswith(".safetensors") and entry.file_size > LARGEST_JSON:
            raise ValueError(f"{entry.filename} is larger than {LARGEST_JSON >> 20} MiB.")


def _copy(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Unpack one file of at most `left` bytes; how many bytes are left then."""
    with packed.open(entry) as source, target.open("xb") as file:
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"unpacked it is larger than {LIMITS.unpacked} MiB, the limit here.")
            file.write(chunk)
    return left


# ------------------------------------------------------------------------------- what it describes


def require_modest(folder: Path) -> None:
    """Refuse a checkpoint whose config describes another model than its weights, or too large a one. A
    config's classes make lists as long as its numbers say, so these are looked at first.

    Raises:
        ValueError: what is wrong.
    """
    config = _read(folder / "config.json")
    kind = config.get("model_type")
    if kind not in KINDS:
        raise ValueError(f"its model type is {kind!r}; {', '.join(KINDS)} can be uploaded."[:200])
    if config.get("quantization_config") or config.get("auto_map"):
        raise ValueError("its config asks for quantized weights or for code of its own.")
    tensors = _tensors(folder)
    layers = config.get("num_hidden_layers")
    if type(layers) is not int or not 1 <= layers <= len(tensors):
        raise ValueError("its config has another number of layers than its weights.")
    count = sum(math.prod(shape) for shape in tensors.values())
    if count > LIMITS.parameters * 1_000_000:
        raise ValueError(
            f"it has {count / 1e6:.0f} million parameters, and at most {LIMITS.parameters} million can be "
            "trained here."
        )
    _require_described(folder, config, tensors)


def _require_described(folder: Path, config: dict, tensors: dict[str, tuple[int, ...]]) -> None:
    """Refuse weights that are not those of the config's model, which is made without values for that."""
    from transformers import AutoConfig

    from mars_demo.models.checkpoint import empty
    from mars_demo.models.fit import require_fit

    for name in ("hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings"):
        value = config.get(name)
        if type(value) is not int or not 1 <= value < 1 << 31:
            raise ValueError(f"its config's {name} is not a whole number of a model's size.")
    model = empty(AutoConfig.from_pretrained(str(folder), trust_remote_code=False))
    wanted = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    if getattr(model.config, "tie_word_embeddings", False):
        tensors = {"lm_head.weight": tensors.get("model.embed_tokens.weight", ()), **tensors}
    misshapen = [name for name in wanted.keys() & tensors.keys() if wanted[name] != tensors[name]]
    require_fit(wanted.keys() - tensors.keys(), misshapen, tensors.keys() - wanted.keys())


def _tensors(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes in the headers of the weights.

    Raises:
        ValueError: if a header is broken or large, or a tensor holds no floating-point numbers.
    """
    loading, _, _ = library()
    loading.require_files(folder)
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as weights:
            length = int.from_bytes(weights.read(8), "little")
            if length > min(LARGEST_HEADER, file.stat().st_size):
                raise ValueError(f"{file.name} is no safetensors file.")
            header = _parsed(weights.read(length), file.name)
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            if tensor["dtype"] not in NUMBERS:
                raise ValueError(f"{name} holds {str(tensor['dtype'])[:20]}, not floating-point numbers.")
            if name in found:
                raise ValueError(f"{name} is in its weights twice.")
            found[name] = tuple(tensor["shape"])
    return found


def _require_tokenizer(checkpoint) -> None:
    """
    Raises:
        ValueError: if the tokenizer makes ids that the model has no row for, or breaks.
    """
    from mars_demo.models.chat import encode_prompt  # imports jinja, which is part of loading

    rows = checkpoint.model.get_input_embeddings().num_embeddings
    try:
        ids = encode_prompt(
            checkpoint.tokenizer, [{"role": "user", "content": "How many days are 3 weeks?"}]
        )
        largest = max([*ids, len(checkpoint.tokenizer) - 1])
    except Exception as error:  # libraries raise much, and one of them panics
        raise ValueError(f"its tokenizer does not work ({type(error).__name__}).") from error
    if not ids or largest >= rows:
        raise ValueError(f"its tokenizer has tokens up to {largest}, and its embedding {rows} rows.")


# --------------------------------------------------------------------------------------- programs


def require_known_programs(folder: Path) -> None:
    """Refuse a chat template or rules of a tokenizer that none of the models here has.

    Raises:
        ValueError: what is unknown.
    """
    known = set().union(*(_programs(place) for place in (*_bundled(), *models.folders())))
    if unknown := sorted(_programs(folder) - known):
        raise ValueError(
            f"its {unknown[0][0]} is not that of a model of this app; it is a program, and no other is run."
        )
    settings = _read(folder / "tokenizer_config.json")
    if named := [key for key, value in settings.items() if "_file" in key and isinstance(value, str)]:
        raise ValueError(f"its tokenizer_config.json names another file ({named[0][:40]}).")
    if settings.get("tokenizer_class") not in TOKENIZERS or settings.get("auto_map"):
        raise ValueError(f"its tokenizer is none of {', '.join(TOKENIZERS)}.")


def _bundled() -> Iterable[Path]:
    return (ASSETS / name for name in bundled())


def _programs(folder: Path) -> set[tuple[str, str]]:
    """The chat templates of a folder and each part of its tokenizer's rules, with what it is."""
    found = set()
    template = folder / "chat_template.jinja"
    if template.exists():
        found.add(("chat template", template.read_text("utf-8").strip()))
    if (folder / "tokenizer_config.json").exists():
        inline = _read(folder / "tokenizer_config.json").get("chat_template")
        if inline is not None:
            found.add(("chat template", inline.strip() if isinstance(inline, str) else json.dumps(inline)))
    for part, rules in _read(folder / "tokenizer.json").items():
        if part not in ("version", "added_tokens", "model") and rules is not None:
            found.add((f"tokenizer's {part[:40]}", json.dumps(rules, sort_keys=True)))
    return found


def _read(file: Path) -> dict:
    if not file.exists():
        raise ValueError(f"{file.name} is missing.")
    return _parsed(file.read_bytes(), file.name)


def _parsed(text: bytes, name: str) -> dict:
    """
    Raises:
        ValueError: if it is not a JSON object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not a JSON object.")
    return found
