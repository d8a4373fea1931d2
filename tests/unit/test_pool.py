"""The models that an app serves: loaded once, evicted when memory is short, refused with a reason."""

import shutil
import threading

import pytest

from mars_demo.assets import ASSETS
from mars_demo.models import memory, pool
from mars_demo.models.pool import Pool, labels


@pytest.fixture
def folders(tmp_path):
    """Return three models of the same size in their own folders."""
    for name in ("one", "two", "three"):
        shutil.copytree(ASSETS / "mars-tiny", tmp_path / name)
    return {name: str(tmp_path / name) for name in ("one", "two", "three")}


@pytest.fixture
def small_machine(monkeypatch):
    """Limit memory to two tiny models; the loaded members of the returned list count."""
    served = []
    size = memory.needed("mars-tiny", "cpu", pool.library()[0].torch.float32)

    def available(device):
        return 2 * size - size * sum(member.checkpoint is not None for member in served)

    monkeypatch.setattr(memory, "available", available)
    return served


def test_names_show_nothing_of_the_folders_and_differ(tmp_path):
    for parent in ("a", "b"):
        (tmp_path / parent / "model").mkdir(parents=True)
    sources = ["mars-tiny", str(tmp_path / "a/model"), str(tmp_path / "b/model"), "owner/name", "mars-tiny"]
    assert list(labels(sources)) == ["mars-tiny", "model", "model (2)", "owner/name"]
    assert list(labels(sources).values()) == sources[:-1]


def test_a_model_is_loaded_once_for_everybody(folders):
    found, served = [], Pool([folders["one"]])
    threads = [threading.Thread(target=lambda: found.append(served.load("one"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(one is found[0] for one in found) and found[0].name == "one"
    assert served.load() is found[0]  # the default
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
    assert served.member("one").facts.block_size == 8  # what it is stays known


def test_a_model_that_is_in_use_stays(folders, small_machine):
    served = Pool(list(folders.values()))
    small_machine += [served.member(name) for name in folders]
    used = [served.load(name) for name in ("one", "two")]
    with pytest.raises(ValueError, match="three.*cpu.*GB"):
        served.load("three")
    assert served.load("one") is used[0] and served.member("three").phase == "waiting"
    del used[1]
    assert served.load("three").name == "three" and served.member("two").phase == "waiting"


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
    missing = served.member(str(tmp_path / "nothing"))
    assert missing.phase == "failed" and missing.problem
    assert served.member("two").phase == "ready"
    weights.write_bytes(whole)
    with pytest.raises(ValueError, match="damaged"):  # not tried again at every request
        served.load("one")
    monkeypatch.setattr(pool, "RETRY_AFTER", 0)
    assert served.load("one").name == "one" and broken.problem is None
