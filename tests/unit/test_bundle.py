"""JavaScript modules as one script: order, names and errors."""

import pytest

from mars_demo.ui.components.bundle import COMPONENT, bundle


@pytest.fixture
def write(tmp_path):
    """Return a function that writes modules by name and source and returns the path of the first."""

    def write_them(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.js").write_text(source, "utf-8")
        return tmp_path / f"{next(iter(sources))}.js"

    return write_them


def test_each_module_runs_once_after_those_it_imports(write):
    entry = write(
        top='import { left } from "./left.js";\nimport { right } from "./right.js";\nrun(left, right);',
        left='import { base } from "./base.js";\nexport const left = base;',
        right='import { base } from "./base.js";\nexport function right() {}',
        base="export class base {}",
    )
    script = bundle(entry)
    places = [script.index(part) for part in ("class base", "const left =", "function right", "run(left")]
    assert places == sorted(places)
    assert script.count("class base") == 1
    assert "import" not in script and "export" not in script


def test_a_text_that_looks_like_an_import_stays(write):
    text = """const said = 'import { a } from "./a.js";';\nconst more = `\nimport { b } from "./b.js";`;"""
    assert text in bundle(write(only=f"// A comment.\n\n{text}"))


def test_imports_may_take_several_lines_and_follow_comments(write):
    entry = write(
        top='// What it is.\n\n// More.\nimport {\n  a,\n  b,\n} from "./names.js";\nrun(a, b);',
        names="export const a = 1;\nexport async function b() {}\nconst c = 3;",
    )
    script = bundle(entry)
    assert "const { a, b } = modules[" in script
    assert "return { a, b };" in script


def test_a_component_passes_on_what_gradio_gives_it(write):
    entry = write(top=f'import {{ props, trigger }} from "{COMPONENT}";\ntrigger(props.value);')
    assert bundle(entry, {"a": ["</script>", None]}).startswith(
        'const constants = {"a": ["</script>", null]};'
    )
    assert '["component.js"]: { element, props, constants, watch, trigger, server }' in bundle(entry)


def test_a_circular_import_is_refused(write):
    entry = write(
        one='import { two } from "./two.js";\nexport const one = 1;',
        two='import { three } from "./three.js";\nexport const two = 2;',
        three='import { two } from "./two.js";\nexport const three = 3;',
    )
    with pytest.raises(ValueError, match="two.js → three.js → two.js"):
        bundle(entry)


def test_a_missing_module_or_name_is_refused(write):
    with pytest.raises(ValueError, match="top.js.*nowhere.js"):
        bundle(write(top='import { a } from "./nowhere.js";'))
    entry = write(other='import { a } from "./names.js";', names="export const b = 1;")
    with pytest.raises(ValueError, match=r"other.js.*\ba\b.*names.js"):
        bundle(entry)
    with pytest.raises(ValueError, match="last.js.*upload.*component.js"):
        bundle(write(last=f'import {{ upload }} from "{COMPONENT}";'))
