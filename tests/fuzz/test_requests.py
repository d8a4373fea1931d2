"""Any request gets a value or an error message, and other visitors are not affected."""

from urllib.parse import quote, urlencode

from hypothesis import given
from hypothesis import strategies as st
from service import API, KNOWN
from strategies import body, events, junk, messages, mistaken, records, texts, values

from mars_demo.core.trace import Run, read_text
from mars_demo.static.standalone.replay import replay_page

SHORT = KNOWN | {"max_new_tokens": 2}
CHAT = {"model": "mars-tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
CHAT |= {"stream": False, "tau": 0.9, "window": None, "temperature": None, "stop": None, "seed": None}
CHAT |= {"response_format": None, "structured_outputs": None}
LONG_WORK = ("replay", "measure", "fit")  # if random data happen to be valid
SERVED = ("recording", "prediction", "replay_page", "refusal", "__init__", "load", "get_config")
QUERY = """tab run prompt model mode tau criterion window seed watch chapter lane pass view mask_kind
    mask_length""".split()
ROUTES = "run/predict queue/join call/generate component_server reset cancel upload mcp/".split()


@given(mistaken(SHORT), st.integers(0, 12), st.booleans())
def test_generate(app, parameters, count, by_name):
    if by_name:
        app.generate(body(parameters), "call/v2")
    else:
        app.generate(body({"data": [*parameters.values()][:count]}))


@given(mistaken(CHAT), st.none() | messages)
def test_the_endpoint(endpoint, parameters, conversation):
    request = parameters if conversation is None else parameters | {"messages": conversation}
    response = endpoint.post("/v1/chat/completions", body(request))
    assert response.status_code in (200, 400, 404, 413)


@given(st.data())
def test_a_function_of_the_page(app, data):
    names = [one for one in app.functions if one["api_name"].rstrip("_0123456789") not in LONG_WORK]
    one = data.draw(st.sampled_from(names))
    count = len(one["inputs"])
    sent = data.draw(st.lists(values, min_size=count, max_size=count) | st.lists(values, max_size=9))
    app.call(one, sent, data.draw(events))


@given(records(), st.integers(-1, 3) | values)
def test_a_record_on_the_stage(app, record, number):
    app.call("show_pass", [], {"record": record, "number": number})
    try:
        runs = read_text(record)
    except ValueError as error:
        assert str(error).endswith(".") and "\n" not in str(error) and len(str(error)) < 600
        return
    assert all(Run.read(run.lines()).text == run.text for run in runs)
    if any(run.passes for run in runs):
        assert "<script>window" not in replay_page(record)


@given(st.sampled_from(SERVED) | texts, st.data())
def test_server_functions_of_components(app, name, data):
    sent = data.draw(values | records() | st.fixed_dictionaries({"record": records(), "at": values}))
    number = data.draw(st.sampled_from(app.components) | values)
    request = {"session_hash": "scripts", "component_id": number, "fn_name": name, "data": sent}
    app.post(f"{API}/component_server", body(request))


@given(st.sampled_from(ROUTES), junk, st.sampled_from(("application/json", "text/plain", "x/y", "")))
def test_unreadable_bytes(app, endpoint, route, content, kind):
    app.post(f"{API}/{route}", content, {"content-type": kind})
    endpoint.post("/v1/chat/completions", content)


@given(st.dictionaries(st.sampled_from(QUERY), texts, max_size=4), st.data())
def test_a_url(app, query, data):
    opening = [one for one in app.functions if any(event == "load" for _, event in one["targets"])]
    one = data.draw(st.sampled_from(opening))
    fields = urlencode({name: value[:500] for name, value in query.items()}, errors="replace")
    request = {"data": [None] * len(one["inputs"]), "fn_index": one["id"], "session_hash": "opens"}
    app.post(f"{API}/run/predict?{fields}", body(request))


@given(st.sampled_from(("file=", "file/", "stream/", "call/generate/", "")), texts)
def test_a_private_file(app, start, path):
    app.get(f"{API}/{start}{quote(path[:200], safe='/%', errors='replace')}")
