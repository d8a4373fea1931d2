"""JavaScript modules as one script."""

import pytest

from mars_demo.ui.components import bundle


@pytest.fixture
def components(tmp_path, monkeypatch):
    """Return a function that writes modules by their paths, and bundles the components of some folders."""
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    monkeypatch.setattr(bundle, "COMPONENT", tmp_path / "component.js")
    (tmp_path / "start.js").write_text("", "utf-8")

    def bundled(names, sources):
        for name, source in sources.items():
            path = tmp_path / f"{name}.js"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source, "utf-8")
        return bundle.script(names)

    return bundled


def test_each_module_is_there_once(components):
    script = components(
        ["left", "right"],
        {
            "left/left": 'import { base } from "../base.js";\nrun(base);',
            "right/right": 'import { base } from "../base.js";\nimport { props } from "../component.js";',
            "base": "export class base {}\nexport async function other() {}\nconst own = 1;",
        },
    )
    assert script.count("class base {}") == 1
    assert 'const { base } = use("base.js");' in script
    assert 'const { props } = use("component.js");' in script
    assert "return { base, other };" in script
    assert "import" not in script and "export" not in script


def test_imports_may_take_several_lines_and_only_begin_a_module(components):
    text = """const said = 'import { a } from "./a.js";';\nconst more = `\nimport { b } from "./b.js";`;"""
    start = '// What it is.\n\n// More.\nimport {\n  a,\n  b,\n} from "../names.js";\n'
    names = "export const a = 1;\nexport const b = 2;"
    script = components(["top"], {"top/top": start + text, "names": names})
    assert 'const { a, b } = use("names.js");' in script
    assert text in script


def test_a_name_that_is_not_exported_is_refused(components):
    with pytest.raises(ValueError, match=r"top.js.*\ba\b.*names.js"):
        components(["top"], {"top/top": 'import { a } from "../names.js";', "names": "export const b = 1;"})
    with pytest.raises(ValueError, match=r"top.js.*upload.*component.js"):
        components(["top"], {"top/top": 'import { upload } from "../component.js";'})
