"""The models that an app serves: loaded once, evicted when memory is short, refused with a reason."""

import shutil
import threading
import weakref

import pytest
import torch

from mars_demo.core.assets import ASSETS
from mars_demo.models import memory, pool
from mars_demo.models.pool import Pool, labels


@pytest.fixture
def folders(tmp_path):
    """Return the folders of three models of the same size."""
    for name in ("one", "two", "three"):
        shutil.copytree(ASSETS / "mars-tiny", tmp_path / name)
    return {name: str(tmp_path / name) for name in ("one", "two", "three")}


@pytest.fixture
def small_machine(monkeypatch):
    """Limit memory to two tiny models, and return a list for the pool members whose models use it."""
    served = []
    size = memory.needed(pool.load.outline("mars-tiny").model, "cpu", torch.float32)

    def available(device):
        return 2 * size - size * sum(member.checkpoint is not None for member in served)

    monkeypatch.setattr(memory, "available", available)
    return served


def test_names_reveal_no_folders_and_differ(tmp_path):
    for parent in ("a", "b"):
        (tmp_path / parent / "model").mkdir(parents=True)
    folders = [str(tmp_path / "a/model"), str(tmp_path / "b/model"), str(tmp_path / "missing")]
    sources = ["mars-tiny", *folders, "owner/name", "mars-tiny"]
    assert list(labels(sources)) == ["mars-tiny", "model", "model (2)", "missing", "owner/name"]
    assert list(labels(sources).values()) == sources[:-1]


def test_a_model_is_loaded_once_for_all_visitors(folders):
    loaded, served = [], Pool([folders["one"]])
    threads = [threading.Thread(target=lambda: loaded.append(served.load("one"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 3 and all(one is loaded[0] for one in loaded) and loaded[0].name == "one"
    assert served.load() is loaded[0]  # the default
    assert served.member("one").facts.parameters == 4_081_920


def test_the_least_recently_used_model_is_evicted_when_memory_is_short(folders, small_machine):
    served = Pool(list(folders.values()))
    small_machine += [served.member(name) for name in folders]
    served.load("one")
    served.load("two")
    served.load("one")
    served.load("three")
    assert [member.phase for member in small_machine] == ["ready", "waiting", "ready"]
    assert served.load("two").name == "two" and served.member("one").phase == "waiting"
    assert served.member("one").facts.modes[0] == "mars"  # its facts are kept


def test_a_model_in_use_is_not_evicted(folders, small_machine):
    served = Pool(list(folders.values()))
    small_machine += [served.member(name) for name in folders]
    used = [served.load(name) for name in ("one", "two")]
    with pytest.raises(ValueError, match="three.*cpu.*GB"):
        served.load("three")
    assert served.load("one") is used[0] and served.member("three").phase == "waiting"
    del used[1]
    assert served.load("three").name == "three" and served.member("two").phase == "waiting"


class Allocator:
    """A stand-in for torch's memory on a GPU with room for two tiny models.

    Freed memory stays reserved, and in use for the driver, until the cache is emptied.
    """

    def __init__(self, size: int):
        self.size, self.allocated, self.reserved = size, 0, 0

    def take(self) -> None:
        self.allocated += self.size
        self.reserved = max(self.reserved, self.allocated)

    def free(self) -> None:
        self.allocated -= self.size

    def empty(self) -> None:
        self.reserved = self.allocated


def test_a_model_evicted_from_a_gpu_frees_its_memory(folders, monkeypatch):
    load = pool.load
    gpu = Allocator(memory.needed(load.outline("mars-tiny").model, "cuda", torch.float32))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * gpu.size - gpu.reserved, 0))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: gpu.reserved)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: gpu.allocated)
    monkeypatch.setattr(torch.cuda, "empty_cache", gpu.empty)
    on_cpu = load.load_checkpoint

    def on_gpu(source, device, *rest, make_room):
        make_room(gpu.size, device)
        checkpoint = on_cpu(source, "cpu", *rest)
        gpu.take()
        weakref.finalize(checkpoint.model, gpu.free)
        return checkpoint

    monkeypatch.setattr(load, "load_checkpoint", on_gpu)
    served = Pool(list(folders.values()), device="cuda", dtype="float32")
    for name in ("one", "two", "three"):
        served.load(name)
    assert [served.member(name).phase for name in folders] == ["waiting", "ready", "ready"]
    assert gpu.reserved == gpu.allocated == 2 * gpu.size
    member = served.member("two")
    pool.unload(member)
    gpu.reserved = 2 * gpu.size  # as if another tensor had been allocated and freed
    assert memory.available("cuda") == gpu.size  # memory that torch only reserves is available


def test_loading_all_evicts_nothing(folders, small_machine):
    served = Pool(list(folders.values()))
    small_machine += [served.member(name) for name in folders]
    served.load_all()
    assert [member.phase for member in small_machine] == ["ready", "ready", "waiting"]


def test_a_broken_model_has_a_reason_and_the_others_load(folders, tmp_path, monkeypatch):
    weights = tmp_path / "one/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    served = Pool([folders["one"], str(tmp_path / "nothing"), folders["two"]])
    served.load_all()
    broken = served.member("one")
    assert broken.phase == "failed" and "damaged" in broken.problem
    missing = served.member("nothing")
    assert missing.phase == "failed" and missing.problem
    assert served.member("two").phase == "ready"
    weights.write_bytes(whole)
    with pytest.raises(ValueError, match="damaged"):  # not retried at every request
        served.load("one")
    monkeypatch.setattr(pool, "RETRY_AFTER", 0)
    assert served.load("one").name == "one" and broken.problem is None
