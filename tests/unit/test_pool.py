"""The models that an app serves: loaded once, kept, and rejected with a reason."""

import shutil
import threading

import pytest
import torch

from mars_demo.core.assets import ASSETS
from mars_demo.models import memory, pool
from mars_demo.models.load import outline
from mars_demo.models.pool import Pool, labels


@pytest.fixture
def folders(tmp_path):
    """Return the folders of three models of the same size."""
    for name in ("one", "two", "three"):
        shutil.copytree(ASSETS / "mars-tiny", tmp_path / name)
    return {name: str(tmp_path / name) for name in ("one", "two", "three")}


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


def test_a_model_that_does_not_fit_is_rejected_and_the_others_stay(folders, monkeypatch):
    served = Pool(list(folders.values()))
    size = memory.needed(outline("mars-tiny").model, "cpu", torch.float32)
    loaded = served.load("one")
    monkeypatch.setattr(memory, "available", lambda device: size - 1)
    with pytest.raises(ValueError, match="two on cpu.*0.0 GB.*0.0 GB"):
        served.load("two")
    assert served.member("two").phase == "failed" and "memory" in served.member("two").problem
    monkeypatch.setattr(memory, "available", lambda device: size)
    served.load_all()
    assert [served.member(name).phase for name in folders] == ["ready", "failed", "ready"]
    assert served.load("one") is loaded


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
