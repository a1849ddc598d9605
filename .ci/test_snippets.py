# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of README.md and docs/ as a reader would: against build/cpu, and with the installed Python package;
and the notebooks of examples/.

A block that does not begin with an import continues the program of the blocks before it on its page, in languages that
have no `main`. A `text` block right after a program is its output, which C and C++ must show. Commands in `sh` are run
unless they install or build something; those in `console` are only shown.

JAX_PYTHON names the interpreter of an environment with JAX, for the examples that import it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build" / "cpu" / "src"
PACKAGE = ROOT / "bindings" / "python" / "src" / "flashscan"
COMPAT = [path for path in sorted((PACKAGE / "compat").iterdir()) if not path.stem.startswith("__")]
# Of sequential_scan's scan and of mamba_ssm's selective_scan_fn.
OTHER_NAMES = {"scan_cu", "scan_cu_single", "scan_tr", "selective_scan_ref"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_generated" not in page.parts]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```([\w+{}-]*)\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
FIRST_LINE = {"python": r"import |from ", "julia": r"using |import "}
SHOWN = {"", "text", "console", "toml", "cmake", "mermaid", "{eval-rst}", "{toctree}", "{literalinclude}", "{include}"}
SETS_UP = re.compile(r"apt-get|pip install|cmake --workflow|cmake --install|git clone|Pkg\.")


@dataclass
class Snippet:
    page: Path
    line: int
    language: str
    code: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets() -> list[Snippet]:
    found: list[Snippet] = []
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            language, code, output = match.groups()
            line = text.count("\n", 0, match.start(2)) + 1
            before = [each for each in found if each.page == page and each.language == language]
            starts = FIRST_LINE.get(language)
            if starts and before and not re.match(starts, code):
                # Blank lines keep the numbers of lines those of the page.
                last = before[-1]
                last.code += "\n" * (line - last.line - last.code.count("\n")) + code
                last.output = "".join(filter(None, (last.output, output))) or None
            else:
                found.append(Snippet(page, line, language, code, output))
    return found


ALL = snippets()


def each(language):
    chosen = [snippet for snippet in ALL if snippet.language == language]
    return pytest.mark.parametrize("snippet", chosen, ids=str)


def run(*command, cwd=None, **environment):
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compile_and_run(snippet, source, *compiler):
    source.write_text(f'#line {snippet.line} "{snippet}"\n{snippet.code}')
    program = source.with_suffix("")
    link = [f"-L{LIBRARY}", "-lflashscan", f"-Wl,-rpath,{LIBRARY}", "-lm"]
    run(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program, *link)
    assert snippet.output is not None, "the example must be followed by a text block with its output"
    assert run(program) == snippet.output


@each("c")
def test_c(snippet, tmp_path):
    compile_and_run(snippet, tmp_path / "example.c", "cc", "-std=c99")


@each("cpp")
def test_cpp(snippet, tmp_path):
    compile_and_run(snippet, tmp_path / "example.cpp", "c++", "-std=c++17")


@each("rust")
def test_rust(snippet, tmp_path):
    crate = ROOT / "bindings" / "rust" / "flashscan"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(snippet.code)
    package = '[package]\nname = "example"\nversion = "0.0.0"\nedition = "2021"\n'
    (tmp_path / "Cargo.toml").write_text(f'{package}[dependencies]\nflashscan = {{ path = "{crate}" }}\n')
    manifest = str(tmp_path / "Cargo.toml")
    target = os.environ.get("CARGO_TARGET_DIR", str(tmp_path / "target"))
    run("cargo", "run", "--offline", "--manifest-path", manifest, FLASHSCAN_LIB_DIR=str(LIBRARY), CARGO_TARGET_DIR=target)


@each("julia")
def test_julia(snippet, tmp_path):
    (tmp_path / "example.jl").write_text("\n" * (snippet.line - 1) + snippet.code)
    project = ROOT / "bindings" / "julia" / "FlashScan"
    run("julia", "-O0", f"--project={project}", str(tmp_path / "example.jl"), FLASHSCAN_LIB_DIR=str(LIBRARY))


@each("python")
def test_python(snippet, tmp_path):
    (tmp_path / "example.py").write_text("\n" * (snippet.line - 1) + snippet.code)
    python = os.environ.get("JAX_PYTHON", sys.executable) if "import jax" in snippet.code else sys.executable
    output = run(python, str(tmp_path / "example.py"), cwd=tmp_path)
    assert snippet.output is None or output == snippet.output


@each("sh")
def test_sh(snippet):
    if SETS_UP.search(snippet.code):
        presets = run("cmake", "--list-presets=workflow", "-S", str(ROOT))
        for preset in re.findall(r"cmake --workflow --preset (\w+)", snippet.code):
            assert f'"{preset}"' in presets
        for path in re.findall(r"(?<=\./)[\w/.-]+", snippet.code):
            assert (ROOT / path).exists(), path
    else:
        # `python` is the environment with the installed package.
        run("sh", "-ec", snippet.code, cwd=ROOT, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and not cell.get("execution_count"), "outputs are not kept in the repository"
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()


def test_every_language_is_run():
    """A block in a language that nothing here runs has to be one that is only shown."""
    run_here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {snippet.language for snippet in ALL} <= run_here | SHOWN
    readme = {snippet.language for snippet in ALL if snippet.page.name == "README.md"}
    assert "sh" in readme and {"c", "cpp", "python", "rust", "julia", "sh"} <= {snippet.language for snippet in ALL}


def test_readme_is_short_and_names_its_commands():
    text = PAGES[0].read_text()
    assert text.count("\n") <= 120
    assert {"quickstart", "cpu"} <= set(re.findall(r"cmake --workflow --preset (\w+)", text))


@pytest.mark.parametrize("module", ["", "torch", "jax", "signal", *(f"compat.{path.stem}" for path in COMPAT)])
def test_references_name_everything(module):
    path = PACKAGE / module.replace(".", "/")
    file = path.with_suffix(".py")
    tree = ast.parse((file if file.exists() else path / "__init__.py").read_text())
    assignment = next(node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name in ast.literal_eval(assignment.value):
        full = ".".join(filter(None, ("flashscan", module, name)))
        assert re.search(rf"^\.\. autoapi\w+:: {re.escape(full)}$", pages, re.MULTILINE) or name in OTHER_NAMES, full


def tracked_pages():
    return [ROOT / name for name in run("git", "ls-files", "*.md", cwd=ROOT).splitlines()]


@pytest.mark.parametrize("page", tracked_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)\s#]+)", text):
        generated = "_generated" in target  # docs/build.sh makes these pages and follows links to them
        assert generated or (page.parent / target).exists(), target
