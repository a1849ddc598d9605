# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages that are made of sources: the C header, the Rust crate and the Julia package.

What is written is Markdown, one page a source. The Python reference comes from Sphinx itself (sphinx-autoapi).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "flashscan" / "flashscan.h"
RUST = ROOT / "bindings" / "rust" / "flashscan" / "src"
JULIA = ROOT / "bindings" / "julia" / "FlashScan" / "src"


def version() -> str:
    text = HEADER.read_text()
    return ".".join(re.search(rf"VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def _fence(language: str, lines: list[str]) -> list[str]:
    return ["", f"```{language}", *lines, "```", ""]


def _escaped(line: str) -> str:
    return re.sub(r"([\\`*_<>\[\]#|])", r"\\\1", line)


def _prose(lines: list[str]) -> list[str]:
    """A comment's lines as Markdown: what is indented is shown as it stands."""
    out: list[str] = []
    shown: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("    ") or (shown and not line):
            shown.append(line[4:])
            continue
        if shown:
            while shown and not shown[-1]:
                shown.pop()
            out += _fence("text", shown)
            shown = []
        out.append(_escaped(line))
    return out + (_fence("text", shown) if any(shown) else [])


# ---- The C header ----

_LONG = 40  # lines


@dataclass
class Group:
    """A comment and the declarations behind it, up to the next comment."""

    comment: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def title(self) -> str:
        text = "\n".join(self.code)
        names = re.findall(r"\b(flashscan_\w+)\(", text) + re.findall(r"^typedef struct (\w+)", text, re.M)
        names += re.findall(r"^typedef .*FLASHSCAN_CALL\* ?(\w+)\)", text, re.M)
        names = list(dict.fromkeys(name for name in names if not name.endswith("_t")))
        if names:
            return ", ".join(names)
        bodies = re.findall(r"^enum \{.*?^\};", text, re.M | re.S)
        enums = [re.findall(r"^    (FLASHSCAN_\w+) =", body, re.M) for body in bodies]
        return ", ".join(_shared(constants) for constants in enums)


def _shared(constants: list[str]) -> str:
    shared = constants[0].rpartition("_")[0]
    while not all(name.startswith(shared) for name in constants):
        shared = shared.rpartition("_")[0]
    return constants[0] if len(constants) == 1 else shared + "_*"


def _comment(lines: list[str]) -> list[str]:
    text = [re.sub(r"^ ?\*? ?", "", line.removeprefix("/*").removesuffix("*/").rstrip(), count=1) for line in lines]
    text = [line.rstrip() for line in text]
    while text and not text[0]:
        text.pop(0)
    while text and not text[-1]:
        text.pop()
    return text


def _groups(lines: list[str]) -> list[Group]:
    groups = [Group()]
    inside: list[str] | None = None
    for line in lines:
        if inside is None and line.startswith("/*"):
            inside = []
        if inside is not None:
            inside.append(line)
            if line.rstrip().endswith("*/"):
                groups.append(Group(_comment(inside)))
                inside = None
        elif not re.match(r"#(if|ifdef|ifndef|endif|else|elif|include)|extern \"C\"|}$", line):
            groups[-1].code.append(line)
    return [group for group in groups if group.comment or any(line.strip() for line in group.code)]


def _trimmed(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n")


def header_page() -> str:
    parts = re.split(r"^/\* ==== (\d+)  (.+?) =+ \*/$", HEADER.read_text(), flags=re.M)
    page = ["# flashscan.h, part by part", ""]
    page += ["This page is made of [the header](../../include/flashscan/flashscan.h), which is the definition.", ""]
    manual = next(group for group in _groups(parts[0].splitlines()) if "whole interface" in " ".join(group.comment))
    contents = next(i for i, line in enumerate(manual.comment) if line == "Contents")
    page += _prose(manual.comment[2:contents])
    for number, title, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        page += ["", f"## {number} {title}", ""]
        for group in _groups(text.splitlines()):
            heading = ["", f"### {_escaped(group.title())}", ""] if group.title() else []
            # A long comment is about the whole part, not about the declaration that happens to be next.
            prose = _prose(group.comment)
            page += [*prose, *heading] if len(group.comment) > _LONG else [*heading, *prose]
            if any(line.strip() for line in group.code):
                page += _fence("c", _trimmed(group.code))
    titles = " ".join(line for line in page if line.startswith("### "))
    for name in re.findall(r"^FLASHSCAN_API.*?(flashscan_\w+)\(", HEADER.read_text(), re.M):
        if _escaped(name) not in titles:
            raise ValueError(f"{name} of flashscan.h has no heading of its own in the reference")
    return "\n".join(page)


# ---- The Rust crate ----

_RUST_ITEM = re.compile(
    r"^ *(?:pub (?:unsafe )?(?:fn|struct|enum|trait|type) .*"
    r"|\w+\([^)]*\) \|desc\|.*|[A-Z]\w+<'a.*\{|\w+: .* = sys::.*,)$"
)


def _rust_signature(line: str) -> str:
    line = re.sub(r" \|desc\|.*| = sys::.*,$", "", line.rstrip())
    return re.sub(r" ?[{;(]?$", "", line) if not line.endswith(")") else line


def _rust_enum(lines: list[str]) -> list[str]:
    end = next(i for i, line in enumerate(lines) if line.strip() == "}")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [re.sub(r" = sys::.*,", ",", line[indent:]) for line in lines[: end + 1] if "$" not in line]


def _rust_text(line: str) -> str:
    line = re.sub(r"\[(`[^`]+`)\](?:\(crate::[^)]*\))?(?!\()", r"\1", line)
    return "".join(part if part.startswith("`") else part.replace("[", "\\[") for part in re.split(r"(`[^`]+`)", line))


def _rust_docs(comment: list[str]) -> list[str]:
    """Doc comments are Markdown; links to items become code, examples lose the lines that rustdoc hides."""
    out, inside = [], False
    for line in comment:
        if line.startswith("```"):
            out.append("```" if inside else "```rust")
            inside = not inside
        elif not (inside and re.match(r"# |#$", line)):
            out.append(line if inside else re.sub(r"^# (.*)$", r"**\1**", _rust_text(line)))
    return out


def _rust_file(path: Path) -> list[str]:
    out: list[str] = []
    comment: list[str] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("///"):
            comment.append(text[3:].removeprefix(" "))
        elif _RUST_ITEM.match(line) and "macro_rules" not in line and "$" not in line:
            top = re.match(r" *pub (struct|enum|trait|type) (\w+)| {4}([A-Z]\w+)<'a", line)
            if top:
                out += ["", f"### {top[2] or top[3]}", ""]
            code = _rust_enum(lines[number:]) if "pub enum" in line else [_rust_signature(line).strip()]
            out += [*_fence("rust", code), *_rust_docs(comment), ""]
            comment = []
        elif not text.startswith("#["):
            comment = []
    return out


def rust_page() -> str:
    lines = (RUST / "lib.rs").read_text().splitlines()
    page = ["# The crate flashscan, item by item", "", "Made of the doc comments, as `cargo doc --open -p flashscan` is.", ""]
    page += _rust_docs([line[3:].removeprefix(" ") for line in lines if line.startswith("//!")])
    files = "lib linear gated selective rnn pool reserve scan custom options plan element error"
    for name in files.split():
        found = _rust_file(RUST / f"{name}.rs")
        page += ["", f"## {name}", *found] if found else []
    return "\n".join(page)


# ---- The Julia package ----


def _julia_docs(text: str) -> list[str]:
    text = re.sub(r"\[(`[^`]+`)\]\(@ref\)", r"\1", text.strip("\n"))
    text = re.sub(r"^(#+) (.*)$", r"**\2**", text, flags=re.M)
    return re.sub(r"```jldoctest", "```julia", text).splitlines()


def julia_page() -> str:
    page = ["# The package FlashScan, function by function", ""]
    page += ["Made of the docstrings, which `?linear_scan` shows too.", ""]
    for path in [JULIA / "FlashScan.jl", *sorted(p for p in JULIA.glob("*.jl") if p.name != "FlashScan.jl")]:
        for text in re.findall(r'^(?:@doc raw|raw)?"""\n(.*?)^"""$', path.read_text(), re.M | re.S):
            signature = re.match(r"    .*?(\w+!?)(?:[({]|$)", text, re.M)
            page += ["", f"## {signature[1]}" if signature else "## The module", "", *_julia_docs(text), ""]
    return "\n".join(page)


def write_all(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in (("c_header", header_page()), ("rust_crate", rust_page()), ("julia_package", julia_page())):
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:  # pages that have not changed are not read again
            path.write_text(text)
