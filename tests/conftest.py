"""The environment and the order of all tests; their fixtures are in `shared_fixtures`."""

import gc
import os
import signal

# Set before transformers and gradio are imported: no test uses a hub or sends analytics.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# Workers run in parallel: each computes on one core and has its own ports.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GRADIO_SERVER_PORT"] = str(10_000 + os.getpid() % 100 * 200)

import hypothesis
import pytest

# What imports make stays; looking for garbage in it again and again takes seconds.
gc.disable()
# Examples per test in tests/fuzz: by default a few, always the same. HYPOTHESIS_PROFILE=many or
# --hypothesis-profile=many generates more than 10,000 random ones in all.
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}
hypothesis.settings.register_profile("few", max_examples=40, derandomize=True, **COMMON)
hypothesis.settings.register_profile("many", max_examples=1500, derandomize=False, **COMMON)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


def pytest_configure(config):
    """Load the fixtures, and set a SIGINT handler, so that children have the default one.

    A shell ignores SIGINT for the processes that it starts in the background, and children inherit an
    ignored signal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not in the process that only hands tests to workers, which would wait for its imports.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses"):
        config.pluginmanager.import_plugin("shared_fixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Collect garbage again, among the objects of tests only."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run browser tests in one worker and `full` tests last.

    The browser, the app and the gallery are made once per worker. A complete run fails early where the
    default tier fails.
    """
    for item in items:
        if {"browser", "demo", "stage_url", "gallery"} & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("browser"))
    items.sort(key=lambda item: item.get_closest_marker("full") is not None)
