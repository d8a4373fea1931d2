"""The paper's checkpoints on one's own machine: when they are offered, and what precedes a download."""

import pytest
from local_hub import use
from web import until

from mars_demo.models import memory
from mars_demo.ui import options
from mars_demo.ui.hosting import published
from mars_demo.ui.hosting.registry import Registry

NAME = published.NAMES[0]
SHORT = "MARS-Qwen2.5-0.5B-blk8"


def offering() -> Registry:
    """Return the registry of an app that was just started."""
    registry = Registry()
    registry.serve(options.read(["--only", "--model", "mars-tiny"], {}), published.NAMES)
    return registry


def asked(registry: Registry) -> published.Published:
    registry.begin(NAME)
    return registry.offer(NAME)


@pytest.mark.parametrize(
    ("arguments", "environment", "is_own"),
    [
        ("", {}, True),
        ("--model mars-tiny --host localhost", {}, True),
        ("--host 0.0.0.0", {}, False),
        ("--share", {}, False),
        ("--model mars-tiny --only", {}, False),
        ("", {"GRADIO_SERVER_NAME": "0.0.0.0"}, False),
        ("", {"GRADIO_ROOT_PATH": "https://example.com/mars"}, False),
        ("", {"SYSTEM": "spaces", "SPACE_ID": "owner/space"}, False),
    ],
)
def test_checkpoints_are_offered_on_ones_own_machine_only(monkeypatch, arguments, environment, is_own):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    chosen = options.read(arguments.split(), environment)
    assert options.is_own_machine(chosen, environment) == is_own


def test_a_restart_knows_what_has_been_downloaded(published_hub, monkeypatch):
    registry = offering()
    assert registry.names() == ["mars-tiny"]
    offer = asked(registry)
    registry.download(NAME)
    until(lambda: offer.phase in ("ready", "failed"))

    use("http://127.0.0.1:9", monkeypatch, published.constants.HF_HUB_CACHE)
    restarted = offering()
    assert restarted.names() == ["mars-tiny", NAME] and (f"{SHORT} (paper)", NAME) in restarted.choices()
    assert restarted.load(NAME).block_size == 8


def test_without_a_network_or_memory_there_is_a_sentence(published_hub, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda device: 10**9)
    registry = offering()
    offer = asked(registry)
    assert offer.phase == "failed" and "memory" in offer.problem and offer.licence == "apache-2.0"
    registry.download(NAME)
    assert offer.phase == "failed" and published_hub.served == 0
    monkeypatch.undo()

    use("http://127.0.0.1:9", monkeypatch, tmp_path)
    offer = asked(registry)
    assert offer.phase == "failed" and "http://127.0.0.1:9 is unreachable" in offer.problem
    assert ("licence", "unknown") in offer.terms()
    registry.download(NAME)
    until(lambda: offer.phase == "failed")
    assert "unreachable" in offer.problem and registry.names() == ["mars-tiny"]
