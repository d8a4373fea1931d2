"""The window of a lent GPU: pieces, what travels, and the seconds of learning."""

import subprocess

import pytest

from mars_demo.recipes.window import carry, pieces, train


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "bundle"
    (source / "deep").mkdir(parents=True)
    (source / "weights").write_bytes(bytes(range(256)) * 40)
    (source / "deep" / "config.json").write_text("{}")
    return source


def contents(folder) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("size", (1000, 10**6))
def test_a_folder_is_joined_as_it_was(folder, tmp_path, size):
    pieces.split(folder, tmp_path / "pieces", size)
    assert all(len(data) <= max(size, 2000) for data in contents(tmp_path / "pieces").values())
    joined = pieces.join([tmp_path / "pieces"], tmp_path / "joined")
    assert joined == tmp_path / "joined" / "bundle"
    assert contents(joined) == contents(folder)


def test_a_file_is_joined_from_the_folders_of_several_calls(folder, tmp_path):
    source, split = folder / "weights", tmp_path / "pieces"
    pieces.split(source, split, 1000)
    groups = [tmp_path / f"returned-{group}" for group in range(3)]
    for number, group in enumerate(groups):
        pieces.deliver(split, number, group)
    assert [len(contents(group)) for group in groups] == [5, 5, 4]  # with the list
    assert pieces.join(groups[::-1], tmp_path / "joined").read_bytes() == source.read_bytes()
    with pytest.raises(ValueError, match="piece-04 is missing"):
        pieces.join([groups[0], groups[2]], tmp_path / "other")


def test_a_damaged_piece_is_named(folder, tmp_path):
    pieces.split(folder, tmp_path / "pieces", 1000)
    piece = tmp_path / "pieces" / "piece-01"
    piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="piece-01 is damaged"):
        pieces.join([tmp_path / "pieces"], tmp_path / "joined")
    with pytest.raises(ValueError, match="pieces.json"):
        pieces.join([tmp_path], tmp_path / "joined")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def test_weights_do_not_travel_until_they_are_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"code.py", "assets/tiny/config.json", "assets/tiny/model.safetensors", "assets/big/model.gguf"}
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x")
    exclude = (tmp_path / ".git/info/exclude").read_text()
    carry.leave_weights()
    (tmp_path / ".window").mkdir()
    (tmp_path / ".window/piece-01").write_text("x")
    assert {*carry.travelling()} == {"code.py", "assets/tiny/config.json"}
    carry.restore()
    assert {*carry.travelling()} == files and git("status", "--porcelain") == ""
    assert (tmp_path / ".git/info/exclude").read_text() == exclude
    assert (tmp_path / "assets/big/model.gguf").exists() and not (tmp_path / ".window").exists()


def test_learning_ends_in_time_for_the_later_calls():
    after = train.ARRIVING + train.SAVING + train.LATER
    assert train.seconds_of_learning(after + 100) == 100
    assert train.seconds_of_learning(10_000) == train.CALL - train.SAVING
    with pytest.raises(ValueError, match="seconds are left"):
        train.train(after - 1, None)
