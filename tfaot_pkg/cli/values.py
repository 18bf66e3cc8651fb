"""The values that a shell offers for an argument or option, by its metavar: `<TAB>` after `--target` lists targets.

Nothing here may fail or take long: a shell runs it while the user types. Nothing is read but the user's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.progress import PlainProgress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.settings_file import Settings


def _samples() -> Iterable[str]:
    from tfaot_pkg.ground import resources

    return resources.samples()


def _packages() -> Iterable[str]:
    """Names in the user's registries; of those on servers, what is in the cache."""
    from tfaot_pkg.package.name import model_of
    from tfaot_pkg.registry.named import open_registry, standing
    from tfaot_pkg.registry.reader import readable_names

    folders, quiet = Folders.of_user(), PlainProgress(verbose=False)
    opened = (open_registry(text, folders, progress=quiet, offline=True) for text in standing(folders))
    return (model_of(name) for name in readable_names(opened))


def _installed() -> Iterable[str]:
    from tfaot_pkg.package.name import model_of
    from tfaot_pkg.package.prefix.manifest import list_prefix

    return (model_of(one.name) for one in list_prefix(Settings.of_file(Folders.of_user()).prefix))


def _targets() -> Iterable[str]:
    from tfaot_pkg.ground.targets import TARGETS

    return TARGETS


def _architectures() -> Iterable[str]:
    from tfaot_pkg.ground.targets import TARGETS

    return {target.architecture for target in TARGETS.values()}


def _toolchains() -> Iterable[str]:
    from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS

    return TOOLCHAINS


def _stages() -> Iterable[str]:
    from tfaot_pkg.measure.inside.view import WHATS

    return WHATS


def _passes() -> Iterable[str]:
    from tfaot_pkg.compiler.passes.pipeline import ON_REQUEST, PASSES

    return ("import", *(each.name for each in (*PASSES, *ON_REQUEST)))


def _registries() -> Iterable[str]:
    from tfaot_pkg.registry.named import Remotes

    return (remote.name for remote in Remotes.of(Folders.of_user()).all())


def _roles() -> Iterable[str]:
    from tfaot_pkg.registry.trust.keys import ROLES

    return ROLES


def _help_pages() -> Iterable[str]:
    from tfaot_pkg.ground import resources

    return (path.rpartition("/")[2] for path in resources.pages())


def _quietly(values: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        try:
            return sorted({value for value in values() if value.startswith(incomplete)})
        except (TfaotError, OSError):
            return []

    return offered


VALUES: Mapping[str, Callable[[str], list[str]]] = {
    metavar: _quietly(values)
    for metavar, values in {
        "SAMPLE": _samples, "PACKAGE": _packages, "REQUIREMENT": _packages, "INSTALLED": _installed, "TARGET": _targets,
        "ARCH": _architectures, "TENSORFLOW": _toolchains, "STAGE": _stages, "PASS": _passes, "REGISTRY": _registries,
        "NAME|DIR|URL": _registries, "ROLE": _roles, "COMMAND|PAGE": _help_pages,
    }.items()
}  # fmt: skip
