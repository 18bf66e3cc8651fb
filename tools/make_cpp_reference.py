"""Write docs/reference/cpp.md from the comments of the C and C++ headers, by Doxygen (Doxyfile).

    python tools/make_cpp_reference.py [--check]

Doxygen's HTML goes to build/doxygen/html. Exit code 1 if Doxygen warns (for example of a public name without a
comment) or, with --check, if the page is outdated; then nothing is written to docs/.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "doxygen"
PAGE = ROOT / "docs" / "reference" / "cpp.md"
EXAMPLES = ROOT / "docs" / "reference" / "examples.cpp"

_HEAD = """\
<!-- Written by tools/make_cpp_reference.py; do not edit. -->
# C and C++

`#include <tfaot/shared.h>` brings what most programs need, `tfaot::Shared`, and `#include <tfaot/tfaot.h>` all of the
C++ side. A model's own header, `<tfaot-model-NAME/model.h>`, declares its class `tfaot_model::NAME`, which is the
`Compiled` of this page.
"""
_FIRST = ("tfaot::Shared", "tfaot::Model", "tfaot::Pool", "tfaot::DynamicModel", "tfaot::Error", "tfaot::span")


def run_doxygen(output: Path = OUTPUT) -> Path:
    """Doxygen's XML of the headers; HTML is beside it. Exits if Doxygen prints a warning."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    options = f"@INCLUDE = {ROOT / 'Doxyfile'}\nOUTPUT_DIRECTORY = {output}\n"
    done = subprocess.run(["doxygen", "-"], input=options, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(done.stderr or f"doxygen ended with {done.returncode}")
    return output / "xml"


def page(xml: Path) -> str:
    """The page that Doxygen's XML gives."""
    names = [entry.get("refid", "") for entry in ET.parse(xml / "index.xml").iter("compound")]
    compounds = [ET.parse(xml / f"{name}.xml").getroot()[0] for name in names]
    classes = [c for c in compounds if c.get("kind") in ("class", "struct") and c.get("prot") == "public"]
    shown = [c for c in classes if c.findtext("compoundname", "").startswith("tfaot")]
    cpp = [c for c in shown if "::" in c.findtext("compoundname", "")]
    c_structs = [c for c in shown if c not in cpp]
    namespace = next(c for c in compounds if c.findtext("compoundname") == "tfaot")
    c_header = next(c for c in compounds if c.findtext("compoundname") == "c_api.h")
    cpp.sort(key=_rank)
    lines = [_HEAD]
    for compound in cpp:
        lines += [f"## {_title(compound)}\n", *_compound(compound)]
    lines += ["## Functions and types\n", *_members(namespace)]
    lines += ["## The C interface\n", "`#include <tfaot/c_api.h>`\n", _text(c_header.find("detaileddescription"))]
    lines += [_enumerators(c_header), *_members(c_header, kinds=("define",))]
    for compound in c_structs:
        lines += [f"### {compound.findtext('compoundname')}\n", *_compound(compound)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _rank(compound: ET.Element) -> tuple[int, str]:
    name = compound.findtext("compoundname", "")
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _title(compound: ET.Element) -> str:
    parameters = [p.findtext("declname") or p.findtext("type", "").split()[-1] for p in _template(compound)]
    return compound.findtext("compoundname", "") + (f"&lt;{', '.join(parameters)}&gt;" if parameters else "")


def _template(element: ET.Element) -> list[ET.Element]:
    return element.findall("templateparamlist/param")


def _compound(compound: ET.Element) -> Iterator[str]:
    header = compound.find("includes")
    if header is not None and "::" in compound.findtext("compoundname", ""):
        yield f"`#include <tfaot/{(header.text or '').removeprefix('tfaot/')}>`\n"
    yield _text(compound.find("briefdescription"))
    yield _text(compound.find("detaileddescription"))
    if example := _examples().get(compound.findtext("compoundname", "")):
        yield f"Example:\n\n```cpp\n{example}```\n"
    yield from _members(compound)


def _examples() -> dict[str, str]:
    """The examples by the classes that they are for; tests compile and run them."""
    found = re.findall(r"^ +//: (tfaot::[^\n]+)\n(.*?)^ +//:$", EXAMPLES.read_text(), re.MULTILINE | re.DOTALL)
    return {name: textwrap.dedent(code) for names, code in found for name in names.split()}


def _members(compound: ET.Element, kinds: tuple[str, ...] = ()) -> Iterator[str]:
    """Types and data as a table, the rest as a list."""
    public = [
        m for m in compound.iter("memberdef") if m.get("prot") == "public" and (not kinds or m.get("kind") in kinds)
    ]
    described = [(m, _text(m.find("briefdescription")) + _text(m.find("detaileddescription"))) for m in public]
    in_table = [(m, text) for m, text in described if text and _is_short(m)]
    if in_table:
        rows = "\n".join(f"| `{_declaration(m)}` | {' '.join(text.split())} |" for m, text in in_table)
        yield f"| | |\n| --- | --- |\n{rows}\n"
    for member, text in described:
        if text and not _is_short(member):
            yield f"- `{_declaration(member)}`\n\n{_indented(text)}"


def _is_short(member: ET.Element) -> bool:
    is_data = member.get("kind") == "variable" and not member.findtext("argsstring")
    return is_data or member.get("kind") in ("typedef", "define")


def _declaration(member: ET.Element) -> str:
    kind, name = member.get("kind"), member.findtext("name", "")
    if kind == "define":
        return f"#define {name} {_code_of(member.find('initializer'))}"
    if kind == "enum":
        values = ", ".join(value.findtext("name", "") for value in member.findall("enumvalue"))
        return f"enum {'class ' if member.get('strong') == 'yes' else ''}{name} {{ {values} }}"
    given = _code_of(member.find("type"))
    arguments = re.sub(r"(?<=\w)=(?=\w)|(?<=\))=(?=\w)", " = ", _code_of(member.find("argsstring")))
    if kind == "typedef":
        return f"using {name} = {given}"
    parameters = [_code_of(p.find("type")) + (f" {p.findtext('declname')}" if p.find("declname") is not None else "")
                  for p in _template(member)]  # fmt: skip
    template = f"template <{', '.join(parameters)}> " if parameters else ""
    return template + f"{given} {name}{arguments}".strip()


def _plain(element: ET.Element | None) -> str:
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def _code_of(element: ET.Element | None) -> str:
    """C++ as this project writes it: Doxygen puts spaces where nobody does."""
    code = re.sub(r"(?<=<) | (?=>)", "", _plain(element))
    code = re.sub(r" ([*&]+)(?=[\w ]|$)", r"\1 ", re.sub(r" ([*&]+\.\.\.)", r"\1", code))
    return re.sub(r"\(\* +", "(*", " ".join(code.split()))


def _enumerators(header: ET.Element) -> str:
    rows = []
    for enum in header.iter("memberdef"):
        if enum.get("kind") == "enum":
            rows += [f"\n{_text(enum.find('briefdescription'))}", "| value | meaning |\n| --- | --- |"]
            for value in enum.findall("enumvalue"):
                number = _plain(value.find("initializer"))
                rows.append(f"| `{value.findtext('name')} {number}` | {_plain(value.find('briefdescription'))} |")
    return "\n".join(rows) + "\n"


# --- descriptions ---------------------------------------------------------------------------------------------------


def _text(element: ET.Element | None) -> str:
    """A description as Markdown; empty where there is none."""
    if element is None:
        return ""
    blocks = [block for para in element.findall("para") for block in _blocks(para)]
    return "".join(f"{block}\n\n" for block in blocks)


def _blocks(para: ET.Element) -> Iterator[str]:
    text = _escaped(para.text or "")
    for child in para:
        if child.tag in ("verbatim", "preformatted", "programlisting", "itemizedlist"):
            if text.strip():
                yield " ".join(text.split())
            text = ""
            yield _list(child) if child.tag == "itemizedlist" else _code(child)
        else:
            text += _inline(child)
        text += _escaped(child.tail or "")
    if text.strip():
        yield " ".join(text.split())


def _code(element: ET.Element) -> str:
    if element.tag != "programlisting":
        return f"```cpp\n{''.join(element.itertext()).strip(chr(10))}\n```"
    for space in element.iter("sp"):
        space.text = " "
    lines = ["".join(line.itertext()).rstrip() for line in element.findall("codeline")]
    return "```cpp\n" + "\n".join(lines) + "\n```"


def _list(element: ET.Element) -> str:
    return "\n".join(f"- {_plain(item)}" for item in element.findall("listitem"))


def _inline(element: ET.Element) -> str:
    text = "".join(element.itertext())
    return f"`{text}`" if element.tag == "computeroutput" else _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in text.rstrip().split("\n"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing to docs/, say whether it is outdated")
    check = parser.parse_args().check
    text = page(run_doxygen())
    if check:
        outdated = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
        print(f"outdated: {PAGE.relative_to(ROOT)}" if outdated else "current")
        return int(outdated)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
