"""`PackageTree`: from a native library, its spec and its signature to the relocatable install tree.

It decides where each file of a package is. Libraries are made in `native`; packages are distributed by `registry` and
`conan`.

    include/tfaot-model-NAME/model.h      the typed class
    include/tfaot-model-NAME/NAME_bsN.h   and NAME.h: what code for cms-tfaot includes (package.cmssw)
    include/tfaot/*.h                     headers that all packages share
    lib/libtfaot-model-NAME.{a,so}
    lib/libtfaot-model-NAME.so.UID        link, by which the loader finds the library
    lib/NAME_bsN.o, lib/NAME_common.o     what the libraries are linked from (package.objects)
    bin/NAME_test, bin/NAME_benchmark     programs for users of the package (package.tools)
    lib/cmake/tfaot-model-NAME/           find_package
    lib/pkgconfig/tfaot-model-NAME.pc
    etc/scram.d/tfaot-model-NAME.xml      and tfaot-model-NAME-objects.xml if there are objects
    share/tfaot-model-NAME/source/        sources that build without this tool (package.source)
    share/tfaot-model-NAME/               spec.yaml, spec.tune.json, info.json, licenses/, validation.json,
                                          sbom.cdx.json, graph.json, provenance.json; reference.bin for NAME_test

Templates lie in folders that mirror this, with NAME in their names. In names of packages NAME has `-` for each `_`
of the model's name (package/name.py). If these differ, small files of the former spelling (headers, CMake, pkg-config)
lead to the package's own.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from packaging.version import Version

from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.forms.document import Dumper
from tfaot_pkg.ground.keys import Key, key_of, sha256_bytes, sha256_file
from tfaot_pkg.ground.rendering import SUFFIX, release_folder, template_names
from tfaot_pkg.ground.rendering import render as render_template
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.cmssw import alias_header, function_headers, tool_files
from tfaot_pkg.package.listing import Member, Tree, headers_version, source_folder
from tfaot_pkg.package.name import other_spellings, shared_library_name
from tfaot_pkg.package.source_form import PROCESSORS, source_files
from tfaot_pkg.spec.document import card_document, spec_document, written
from tfaot_pkg.spec.rules import cpp_identifiers
from tfaot_pkg.spec.tuning import PACKAGED, tuning_bytes
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.sources import TreesFacts

STAGE = "package"
_INFO_FORMAT = 1
_SHOWN = 8
_TEMPLATES = "package"
_FORMER = "former"
"""Templates of files of the former spelling of a package's name, which refer to the package's own files."""

MEMBER_NAMES = frozenset(
    "name version uid batch_sizes any_batch_size rows_independent inputs outputs run target memory table "
    "instance".split()
)
"""Members of the generated class: C++ lets no class have a member of its own name."""

# Generated types with one member per tensor, and their other members: a tensor of such a name gets another identifier.
_TYPE_NAMES = frozenset({"Inputs", "Outputs", "InputInfo", "OutputInfo", "StepInputs", "StepOutputs", "get"})
_MACRO = re.compile(r"[A-Z](?:[A-Z0-9_]*[A-Z0-9])?")
"""Names of members that a program may use for macros: `N`, `N_MAX`. Macros of systems are no names of members."""
_STATE_NAMES = frozenset({"state", "step_inputs", "step_outputs"})
"""Further members of classes of models with state."""
_SIZED_NAMES = frozenset({"symbols", "largest_sizes"})
"""Further members of classes of models with symbols."""
_HIDDEN_NAMES = (_TYPE_NAMES - {"get"}) | frozenset(
    "InputTypes OutputTypes Sizes instance_ v2 v2_without_exceptions".split()
)
"""Further members, and the inline namespace of the headers: no class of a model had such a name and compiled."""
_OF_UID = re.compile(r"(uid|function|cmssw)_[0-9a-f]{12}")
"""Further inline namespaces around the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageContents:
    """Everything that a package is made from.

    `any_batch_size`: the model is compiled for every number of rows; the batch sizes of its spec are those that were
    validated and measured. `bits` says whether results are the same bits on every CPU (`Engine.bits`). `symbol` is the
    entry function of the libraries, `uid` (12 hexadecimal digits) the digest in it. `toolchain` is as in the C ABI
    ("tensorflow 2.17.1"), `origin` says what made the model ("" for TensorFlow). `system_libraries` are what the
    static library needs from the system, without `lib`: no C++ runtime. `glibc` is the oldest C library that the
    shared library and the programs load with, if that is known. `objects` are what the libraries were linked from,
    `programs` what goes into bin/, `answers` what NAME_test compares with (verify/oracle.py), if the package has them.
    `notices` are the licence texts of everything linked in, by file name. `code` are the library's sources with their
    licence, if the package has a source form (source_form.py).
    `validation` is the report, as JSON values, and so are `sbom` and `graph`. `trees` says how decision trees are
    called.
    `provenance` gives the provenance of a package that holds a given tree: it is asked last, with the tree of all other
    files. `digests` are the SHA-256 of `binaries`, if they are known.
    """

    spec: ModelSpec
    signature: Signature
    rows: Rows
    any_batch_size: bool
    bits: Mapping[str, object]
    symbol: str
    uid: str
    toolchain: str
    static_library: Path
    shared_library: Path
    notices: Mapping[str, bytes]
    validation: Mapping[str, object]
    origin: str = ""
    system_libraries: tuple[str, ...] = ("m",)
    glibc: str = ""
    objects: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    answers: bytes | None = None
    code: Mapping[str, bytes] | None = None
    sbom: Mapping[str, object] | None = None
    graph: Mapping[str, object] | None = None
    trees: TreesFacts | None = None
    provenance: Callable[[Tree], Mapping[str, object]] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def package_name(self) -> str:
        return self.spec.model.package_name

    @property
    def libraries(self) -> dict[str, Path]:
        """The library files by their place in the package."""
        return {
            f"lib/lib{self.package_name}.a": self.static_library,
            f"lib/lib{self.package_name}.so": self.shared_library,
            **{f"lib/{path.name}": path for path in self.objects},
        }

    @property
    def binaries(self) -> dict[str, Path]:
        """Libraries and programs by their place in the package."""
        return {**self.libraries, **{f"bin/{path.name}": path for path in self.programs}}

    def binary_digests(self) -> dict[str, str]:
        """The SHA-256 of `binaries`, by their place. Raises OSError."""
        return dict(self.digests) or {path: sha256_file(file) for path, file in self.binaries.items()}

    @property
    def links(self) -> dict[str, str]:
        """Links by their place in the package: what they lead to."""
        return {f"lib/{self.soname}": f"lib{self.package_name}.so"}

    @property
    def soname(self) -> str:
        return shared_library_name(self.package_name, self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTree:
    """A package on disk. `root` can be moved or copied anywhere: nothing in it names its place."""

    root: Path
    key: Key
    package_name: str
    version: str

    @property
    def static_library(self) -> Path:
        return self.root / f"lib/lib{self.package_name}.a"

    @property
    def shared_library(self) -> Path:
        return self.root / f"lib/lib{self.package_name}.so"

    @property
    def objects(self) -> tuple[Path, ...]:
        """What the libraries are linked from, if the package has it."""
        return tuple(sorted((self.root / "lib").glob("*.o")))

    @property
    def loaded(self) -> tuple[Path, ...]:
        """What the system's loader loads: the shared library and the programs."""
        return (self.shared_library, *sorted((self.root / "bin").glob("*")))


def make_package(
    contents: PackageContents, cache: BuildCache, check: Callable[[Path], None] = lambda _root: None
) -> PackageTree:
    """The package of `contents` in the build cache. `check` gets the folder of a new one, and rejects it by an error.

    Raises SpecError, StorageError.
    """
    rendered = render(contents)
    key = _key(contents, rendered)

    def make(folder: Path) -> None:
        _write(rendered, contents, folder, cache)
        check(folder)

    return _tree(contents, key, cache.get_or_make(STAGE, key, make))


def render(contents: PackageContents) -> dict[str, bytes]:
    """Every file of the package but the binaries, by its path in it. Raises SpecError for a name C++ cannot take."""
    files = {**for_users(contents), **_headers(), **_share(contents)}
    if contents.code is not None:
        files |= source_form(contents, contents.code, files)
    if contents.provenance is not None:
        # Last, because provenance lists the digests of all other files.
        tree = _listing(files, contents)
        files[f"share/{contents.package_name}/provenance.json"] = document_bytes(contents.provenance(tree))
    return dict(sorted(files.items()))


def for_users(contents: PackageContents, release: str = "") -> dict[str, bytes]:
    """The files that compilers and build systems of users run, except the shared headers, as `release` renders them."""
    model, objects = contents.spec.model, tuple(path.name for path in contents.objects)
    tools = tool_files(package=contents.package_name, version=model.version, homepage=model.homepage, objects=objects)
    return {
        **_cmssw_headers(contents, release),
        **_rendered_templates(contents, release),
        **{f"etc/scram.d/{name}": text for name, text in tools.items()},
    }


def source_form(
    contents: PackageContents, code: Mapping[str, bytes], packaged: Mapping[str, bytes], release: str = ""
) -> dict[str, bytes]:
    """The files of the source form by their place in the package, whose other files are `packaged`."""
    context = {
        **template_context(contents, release),
        "bits": contents.bits,
        "unfused": contents.bits.get("other_bits", ()),
    }
    files = source_files(code, packaged, context, contents.spec.compilation.targets, release)
    return {f"{source_folder(contents.package_name)}/{path}": data for path, data in files.items()}


def _listing(rendered: Mapping[str, bytes], contents: PackageContents) -> Tree:
    """What `package.listing.scan_tree` would find once all is written."""
    digests = {path: sha256_bytes(data) for path, data in rendered.items()}
    digests |= contents.binary_digests()
    members = [
        Member(path=path, kind="program" if _is_program(path) else "file", content=digest)
        for path, digest in digests.items()
    ]
    members += [Member(path=path, kind="link", content=target) for path, target in contents.links.items()]
    return Tree(members=tuple(sorted(members, key=lambda member: member.path)))


def _is_program(path: str) -> bool:
    return path.endswith(".so") or path.startswith("bin/")


def info_document(contents: PackageContents) -> dict[str, object]:
    """What info.json says: how to use the package, without reading its binaries."""
    spec = contents.spec
    return {
        "format": _INFO_FORMAT,
        "package": contents.package_name,
        "name": spec.model.name,
        "version": spec.model.version,
        "description": spec.model.description,
        "author": spec.model.author,
        "license": spec.model.license,
        "homepage": spec.model.homepage,
        "model_format": spec.model.files.format,
        **card_document(spec.model),
        "uid": contents.uid,
        "symbol": contents.symbol,
        "toolchain": contents.toolchain,
        **({"origin": contents.origin} if contents.origin else {}),
        **({"trees": _trees(contents.trees)} if contents.trees is not None else {}),
        "cpp": {
            "header": f"{contents.package_name}/model.h",
            "class": spec.cpp_class,
        },
        "libraries": sorted(contents.libraries),
        **({"programs": sorted(f"bin/{path.name}" for path in contents.programs)} if contents.programs else {}),
        "batch_sizes": list(spec.compilation.batch_sizes),
        "any_batch_size": contents.any_batch_size,
        **({"precision": written(precision)} if (precision := contents.spec.compilation.precision).is_reduced else {}),
        **contents.bits,
        **({"custom_operations": sorted(spec.model.operations)} if spec.model.operations else {}),
        **contents.rows.as_dict(),
        "targets": list(spec.compilation.targets),
        **({"glibc": contents.glibc} if contents.glibc else {}),
        "weights": spec.compilation.weights,
        **plain(contents.signature),
        **({"signatures": _signatures(spec, contents.signature)} if contents.signature.parts else {}),
    }


def _trees(facts: TreesFacts) -> dict[str, object]:
    """How decision trees are called: what the library's calls choose, and the names that the file has."""
    return {name: value for name, value in plain(facts).items() if value}


def _signatures(spec: ModelSpec, signature: Signature) -> list[dict[str, object]]:
    """Several signatures: their classes, and which of the inputs and outputs are theirs."""
    space = spec.compilation.namespace
    return [
        {
            "name": part.name,
            "class": f"{space}::{spec.class_of(part.name)}",
            "inputs": list(part.inputs),
            "outputs": list(part.outputs),
        }
        for part in signature.parts
    ]


def _key(contents: PackageContents, rendered: Mapping[str, bytes]) -> Key:
    # Rendering is pure and takes milliseconds, so its results stand for all of its inputs.
    parts = {
        "rendered": {path: sha256_bytes(data) for path, data in rendered.items()},
        "binaries": contents.binary_digests(),
    }
    return key_of(STAGE, code_digest(__name__), parts)


def _tree(contents: PackageContents, key: Key, root: Path) -> PackageTree:
    return PackageTree(root=root, key=key, package_name=contents.package_name, version=contents.spec.model.version)


def _write(rendered: Mapping[str, bytes], contents: PackageContents, folder: Path, cache: BuildCache) -> None:
    for inner in {Path(path).parent for path in (*rendered, *contents.binaries)}:
        (folder / inner).mkdir(parents=True, exist_ok=True)
    for path, data in rendered.items():
        (folder / path).write_bytes(data)
        (folder / path).chmod(0o644)
    for path, file in contents.binaries.items():
        # Files of the cache never change, so that two of its folders may share one, which may be large.
        (os.link if file.is_relative_to(cache.root) else shutil.copyfile)(file, folder / path)
        (folder / path).chmod(0o755 if _is_program(path) else 0o644)
    for path, target in contents.links.items():
        (folder / path).symlink_to(target)


def _rendered_templates(contents: PackageContents, release: str) -> dict[str, bytes]:
    package, context = contents.package_name, template_context(contents, release)
    files = {
        _output_path(template, package): render_template(template, context, release).encode()
        for template in template_names(_TEMPLATES, release)
    }
    for former in other_spellings(package):
        files |= {
            _output_path(template, former): render_template(template, {**context, "former": former}, release).encode()
            for template in template_names(_FORMER, release)
        }
    return files


def _cmssw_headers(contents: PackageContents, release: str) -> dict[str, bytes]:
    if not contents.spec.package.cmssw:
        return {}
    spec, package = contents.spec, contents.package_name
    names = {"symbol": contents.symbol, "uid": contents.uid, "tool": package, "release": release}
    headers = {**function_headers(spec, contents.signature, **names), **alias_header(spec, package, release)}
    return {f"include/{package}/{name}": text.encode() for name, text in headers.items()}


def _output_path(template: str, package: str) -> str:
    _, _, relative = template.removesuffix(SUFFIX).partition("/")
    return relative.replace("tfaot-model-NAME", package)


def template_context(contents: PackageContents, release: str = "") -> dict[str, object]:
    """The variables of a package's templates, as `release` knew them."""
    spec = contents.spec
    check_class_name(spec)
    numbers = Version(spec.model.version).release
    # All targets of a spec are of one architecture (spec/values.py).
    architecture = TARGETS[spec.compilation.targets[0]].architecture
    return {
        "package": contents.package_name,
        "model": spec.model,
        "compilation": spec.compilation,
        "rows": contents.rows,
        "any_batch_size": contents.any_batch_size,
        "namespace": spec.compilation.namespace,
        "class_name": spec.class_name,
        "toolchain": contents.toolchain,
        "origin": contents.origin,
        "symbol": contents.symbol,
        "uid": contents.uid,
        "soname": contents.soname,
        # CMake compares numbers only: 1.0.0rc1 counts as 1.0.0.
        "numeric_version": ".".join(map(str, numbers)),
        "major_version": numbers[0],
        "system_libraries": contents.system_libraries,
        "symbols": _symbols(contents.signature.symbols),
        **_border(contents.signature),
        "counted": _counted(spec, contents.signature),
        "has_complex": any(each.dtype in (DType.COMPLEX64, DType.COMPLEX128) for each in contents.signature.tensors),
        **_state(contents.signature),
        "parts": [
            {"name": part.name, "class_name": spec.class_of(part.name), **_border(contents.signature.of(part))}
            for part in contents.signature.parts
        ],
        "architecture": architecture,
        "processors": PROCESSORS[architecture],
        "headers_version": headers_version(_version_header(release)),
        "hidden_macros": sorted(filter(_MACRO.fullmatch, set(_identifiers(contents.signature).values()))),
    }


def check_class_name(spec: ModelSpec) -> None:
    """Raise SpecError if the generated class cannot have its name. Cheap: call it before a build."""
    names = [spec.class_name, *(spec.class_of(each.name) for each in spec.model.signatures)]
    is_new = bool(spec.compilation.class_name)  # so that no package of today is refused
    taken = _HIDDEN_NAMES | MEMBER_NAMES
    taken |= _STATE_NAMES if is_new or spec.compilation.variables else frozenset()
    taken |= _SIZED_NAMES if is_new or spec.model.symbols else frozenset()
    if (name := next((name for name in names if name in taken or _OF_UID.fullmatch(name)), None)) is not None:
        key = "compilation.class_name" if spec.compilation.class_name else "model.name"
        raise SpecError(
            f"{key}: '{name}' is a member of every generated class or a namespace around it, so no class can have "
            "that name",
            hint=f"choose another name, such as {spec.class_name}_model",
        )


def names_note(signature: Signature) -> str:
    """Which tensors and symbols have other names in C++, if any; a `:0` that is left out does not count."""
    names = _identifiers(signature)
    changed = [f"{name!r} is {new}" for name, new in names.items() if new != name.removesuffix(":0")]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f"names in C++: {', '.join(changed[:_SHOWN])}{more}" if changed else ""


def _identifiers(signature: Signature) -> dict[str, str]:
    """What tensors and symbols are called in C++, by their names."""
    members = [*_symbols(signature.symbols), *tensor_members(signature.inputs), *tensor_members(signature.outputs)]
    return {str(each["name"]): str(each["identifier"]) for each in members}


def _symbols(symbols: tuple[Symbol, ...]) -> list[dict[str, object]]:
    identifiers = cpp_identifiers((symbol.name for symbol in symbols), taken=("Sizes",))
    return [{**plain(symbol), "identifier": identifiers[symbol.name]} for symbol in symbols]


def _border(signature: Signature) -> dict[str, list[dict[str, object]]]:
    return {"inputs": tensor_members(signature.inputs), "outputs": tensor_members(signature.outputs)}


def _counted(spec: ModelSpec, signature: Signature) -> list[dict[str, object]]:
    """Outputs whose number of rows depends on values: the member that holds the number, and the length of a row."""
    renamed = dict(zip(spec.model.output_keys, spec.model.outputs, strict=False))
    counts = {renamed.get(name, name): renamed.get(count, count) for name, count in spec.model.counts.items()}
    tensors = {tensor.name: tensor for tensor in signature.outputs}
    members = {str(each["name"]): each for each in tensor_members(signature.outputs)}
    # If a call sets other axes too, the length of a row is not known when the header is generated.
    known = [name for name in sorted(counts) if not any(tensors[name].axes[1:])]
    taken = {str(each["identifier"]) for each in members.values()}
    wanted = {name: f"{members[name]['identifier']}_rows" for name in known}
    methods = cpp_identifiers(wanted.values(), taken=(*_TYPE_NAMES, *taken))
    return [
        {
            **members[name],
            "count": members[counts[name]]["identifier"],
            "width": math.prod(size or 1 for size in tensors[name].shape[1:]),
            "method": methods[wanted[name]],
        }
        for name in known
    ]


def tensor_members(tensors: tuple[Tensor, ...]) -> list[dict[str, object]]:
    """The members of generated classes for `tensors`, as variables of templates."""
    identifiers = cpp_identifiers((tensor.name for tensor in tensors), taken=_TYPE_NAMES)
    return [
        {
            "name": tensor.name,
            "identifier": identifiers[tensor.name],
            "cpp": tensor.dtype.global_cpp,
            "dtype": "boolean" if tensor.dtype.value == "bool" else tensor.dtype.value,
            "row_size": math.prod(tensor.row_shape),
            "has_batch_axis": tensor.has_batch_axis,
            "shown": str(tensor),
        }
        for tensor in tensors
    ]


def _state(signature: Signature) -> dict[str, object]:
    """The state, and the inputs and outputs that do not belong to it, as variables of templates."""
    if not signature.state:
        return {"state": [], "step_inputs": [], "step_outputs": []}
    inputs, outputs = ([tensor.name for tensor in each] for each in (signature.inputs, signature.outputs))
    identifiers = cpp_identifiers((each.name for each in signature.state), taken=("StateTensors",))
    tensors = {each["name"]: each for each in tensor_members(signature.inputs)}
    steps = {"step_inputs": (signature.step_inputs, inputs), "step_outputs": (signature.step_outputs, outputs)}
    return {
        "state": [
            {
                **tensors[each.input],
                "name": each.name,
                "identifier": identifiers[each.name],
                "input": inputs.index(each.input),
                "output": outputs.index(each.output) if each.output else 0,
                "is_updated": bool(each.output),
            }
            for each in signature.state
        ],
        **{
            kind: [{**each, "position": names.index(str(each["name"]))} for each in tensor_members(chosen)]
            for kind, (chosen, names) in steps.items()
        },
    }


def _headers() -> dict[str, bytes]:
    folder = resources.headers()
    return {f"include/{p.relative_to(folder).as_posix()}": p.read_bytes() for p in folder.glob("tfaot/**/*.h")}


def _version_header(release: str) -> str:
    """`tfaot/version.h`, with the version of the headers that a package needs."""
    folder = release_folder(release) if release else resources.headers() / "tfaot"
    return (folder / "version.h").read_text()


def _share(contents: PackageContents) -> dict[str, bytes]:
    folder = f"share/{contents.package_name}"
    return {
        f"{folder}/spec.yaml": _yaml(spec_document(contents.spec)),
        **({f"{folder}/{PACKAGED}": tuning_bytes(contents.spec.tuning)} if contents.spec.tuning is not None else {}),
        f"{folder}/info.json": document_bytes(info_document(contents)),
        f"{folder}/validation.json": document_bytes(contents.validation),
        **({f"{folder}/reference.bin": contents.answers} if contents.answers is not None else {}),
        **({f"{folder}/sbom.cdx.json": document_bytes(contents.sbom)} if contents.sbom is not None else {}),
        **({f"{folder}/graph.json": document_bytes(contents.graph)} if contents.graph is not None else {}),
        **{f"{folder}/licenses/{_notice_name(name)}": text for name, text in contents.notices.items()},
    }


def _notice_name(name: str) -> str:
    # The name becomes a path of the package.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise ValueError(f"not a plain file name: {name!r}")
    return name


def document_bytes(document: Mapping[str, object]) -> bytes:
    """A document of a package as a file."""
    # NaN is no JSON: other parsers would reject the file.
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _yaml(document: Mapping[str, object]) -> bytes:
    # In the order of the spec's fields, as people write it.
    return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8", width=120)
