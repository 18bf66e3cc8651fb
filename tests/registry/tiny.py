"""The smallest libraries that a package may hold: real ones, compiled for this machine, that compute nothing."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import tempfile
from pathlib import Path

from tfaot_pkg.ground.process import run
from tfaot_pkg.spec.rules import package_name

SOURCE = "const void *{symbol}(void) {{ return 0; }}\nconst void *tfaot_model_entry(void) {{ return {symbol}(); }}\n"


def tiny_uid(version: str) -> str:
    """What stands for the digest of a model's content."""
    return hashlib.sha256(version.encode()).hexdigest()[:12]


def tiny_symbol(model: str, version: str) -> str:
    return f"tfaot_model_{model}_{tiny_uid(version)}"


@functools.cache
def tiny_libraries(
    model: str, version: str, more: str = "", *options: str, compiler: str = "gcc"
) -> tuple[bytes, bytes]:
    """A static and a shared library of a package. `more` is C that both hold, `options` are the shared one's linker's."""
    symbol, package = tiny_symbol(model, version), package_name(model)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        definition = SOURCE.format(symbol=symbol)
        (folder / "all.c").write_text(more + definition)
        (folder / "static.c").write_text(more + definition.splitlines()[0] + "\n")
        for source in ("all", "static"):
            run([compiler, "-O1", "-fPIC", "-c", f"{source}.c", "-o", f"{source}.o"], cwd=folder)
        soname = f"-Wl,-soname,lib{package}.so.{tiny_uid(version)}"
        run([compiler, "-shared", "-nostartfiles", *options, soname, "all.o", "-o", "lib.so"], cwd=folder)
        run(["ar", "rcsD", "lib.a", "static.o"], cwd=folder)
        return (folder / "lib.a").read_bytes(), (folder / "lib.so").read_bytes()


def tiny_info(model: str, version: str, target: str = "") -> bytes:
    """The info.json of a package of `tiny_libraries`."""
    target = target or ("aarch64" if platform.machine() == "aarch64" else "x86-64")
    return json.dumps(
        {
            "package": package_name(model),
            "name": model,
            "version": version,
            "uid": tiny_uid(version),
            "symbol": tiny_symbol(model, version),
            "targets": [target],
            "glibc": "",
        }
    ).encode()


def tiny_files(model: str, version: str, *, compiler: str = "gcc", target: str = "") -> dict[str, bytes | str]:
    """A whole package: bytes are a file, a string is a link's target."""
    name = package_name(model)
    static, shared = tiny_libraries(model, version, compiler=compiler)
    return {
        f"include/{name}/model.h": f"// {model} {version}\n".encode(),
        f"lib/lib{name}.a": static,
        f"lib/lib{name}.so": shared,
        f"lib/lib{name}.so.{tiny_uid(version)}": f"lib{name}.so",
        f"lib/cmake/{name}/{name}Config.cmake": b"# " + version.encode(),
        f"share/{name}/info.json": tiny_info(model, version, target),
    }
