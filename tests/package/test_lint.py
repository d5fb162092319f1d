"""The lint scripts of this project: they find breaches, and there is none in the sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint import layering
from lint.language import cpp_breaches, page_breaches, python_breaches


def test_language_finds_openings() -> None:
    for opening in ("What", "How", "Whether", "Of", "So"):
        text = f'"""{opening} it is."""'
        source = f"{text}\nclass A:\n    {text}\n    def _f(self):\n        {text}\n"
        assert python_breaches(source) == [f"{n}: begins with {opening!r}" for n in (1, 3, 5)]
        assert python_breaches(source.replace(opening, "Offset and")) == []
    source = "// How it is laid out.\n#pragma once\n// What follows is fine.\n"
    assert cpp_breaches(source, is_header=True) == ["1: begins with 'How'"]
    assert cpp_breaches(source, is_header=False) == []


def test_language_finds_phrases_in_text_alone() -> None:
    for phrase in ("is told of", "lies", "takes up", "none the worse", "at any moment"):
        assert python_breaches(f'"""The file\n{phrase} again."""\n'), phrase
        across = "\n// ".join(phrase.split())
        assert cpp_breaches(f"// The file {across} again.\n", is_header=True), phrase
        assert page_breaches(f"# Title\n\nThe file {phrase}.\n") == [f"3: says {phrase!r}"]
        assert page_breaches(f"The `{phrase}`.\n\n```\n{phrase}\n```\n") == []
        assert python_breaches(f'x = "{phrase}"\n') == []
    assert python_breaches("x = 1  # Come what\n# may.\n") == ["1: says 'Come what may'"]
    source = 'f("// so-manieth");  // the so-manieth\ng();\n/* is told\n   of it */\n'
    assert cpp_breaches(source, is_header=False) == ["1: says 'so-manieth'", "3: says 'is told of'"]
    source = "int n = 1'000;  // who waits\nint m = '\\'';\n"
    assert cpp_breaches(source, is_header=False) == ["1: says 'who waits'"]
    text = "Takes up to 2 MB; replies; the moments of a distribution; told apart by size; outgoing."
    assert page_breaches(text) == cpp_breaches(f"// {text}\n", is_header=True) == []


def test_language_finds_names() -> None:
    for name in ("kMostBytes", "kLeast", "most_bytes", "settle_dicts", "took"):
        assert cpp_breaches(f"int a;\nint {name} = 1;\n", is_header=False) == [f"2: names {name!r}"]
        plain = f'// The {name}.\nf("{name}");\nint n_{name};\n'
        assert cpp_breaches(plain, is_header=False) == []


def test_layering_finds_includes() -> None:
    wrong = {
        "base": ['"io/file.h"', "<sys/mman.h>", "<ATen/ATen.h>"],
        "threads": ['"io/file.h"', '"model/value.h"'],
        "io": ['"codec/codec.h"', "<zstd.h>"],
        "codec": ['"io/file.h"', '"formats/atp/reader.h"'],
        "serial": ['"io/file.h"', '"codec/codec.h"', "<Python.h>"],
        "formats/atp": ["<torch/torch.h>", "<Python.h>", '"formats/array_file/layer/layer.h"'],
        "plan": ["<ATen/core/Tensor.h>", '"collate/collator.h"', '"io/file.h"'],
        "collate": ['"formats/atp/reader.h"', '"io/file.h"', "<pybind11/pybind11.h>"],
        "bindings": ["<zstd.h>", "<sys/mman.h>"],
    }
    for layer, includes in wrong.items():
        for name in includes:
            found = layering.include_breaches(layering.CSRC / layer, layer, f"\n#include {name}\n")
            assert len(found) == 1, f"{layer}: {name}"
            assert found[0].startswith("2: "), found
    fine = "#include <sys/mman.h>\n#include <vector>\n"
    assert layering.include_breaches(layering.CSRC / "io", "io", fine) == []


@pytest.mark.parametrize(
    ("name", "text", "breach"),
    [
        ("batch/x.py", "x = 1\nfrom atompack_torch.datasets import base\n", "2: batch imports"),
        ("batch/x.py", "from atompack_torch import _C\n", "1: batch.x imports _C"),
        ("errors.py", "import atompack_torch.options\n", "1: errors imports options"),
        ("loading/samplers/x.py", "import atompack_torch.batch\n", "1: samplers use"),
        ("batch/x.py", "def f():\n    import mmap\n", "2: imports mmap"),
    ],
)
def test_layering_finds_imports(
    name: str, text: str, breach: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "atompack_torch"
    for folder in ("datasets", "batch", "loading/samplers"):
        (package / folder).mkdir(parents=True)
    for module in ("options.py", "datasets/base.py"):
        (package / module).touch()
    (package / name).write_text(text)
    monkeypatch.setattr(layering, "PACKAGE", package)
    module = package / name
    found = [*layering.import_breaches(module), *layering.library_breaches(module)]
    assert len(found) == 1
    assert found[0].startswith(breach)


def test_layering_finds_circles() -> None:
    assert {*layering.circle_in({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}})} == {"b", "c"}
    assert layering.circle_in({"e": {"e"}}) == ["e", "e"]
    assert layering.circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
