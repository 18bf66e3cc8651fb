"""Commands about registries on servers: registry add, list, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import DebugFlag, JsonFlag

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Your name for the registry.")]


def register(app: typer.Typer) -> None:
    """Into the group `registry`, which other modules fill as well."""
    group = next((one.typer_instance for one in app.registered_groups if one.name == "registry"), None)
    if group is None:
        group = typer.Typer(help="Registries: making, keeping, knowing them.", no_args_is_help=True)
        app.add_typer(group, name="registry")
    group.command()(add)
    group.command("list")(list_)
    group.command()(remove)


def add(
    name: NameArgument,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of its folder, https://...")],
    *,
    root: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its root (metadata/1.root.json), from its keeper.")
    ] = None,
    fingerprint: Annotated[
        str, typer.Option(metavar="SHA256", help="Instead: the SHA-256 of its root, from its keeper.")
    ] = "",
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Take a registry without signatures.")] = False,
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="Take plain http from another machine than this one.")
    ] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a registry on a server known under a name, with the root that all trust in it begins with.

    Get the root or its fingerprint from the registry's keeper, over another way than that server.

    Example: tfaot-pkg registry add cms https://models.example.org/registry --fingerprint 3f5c...
    """
    from tfaot_pkg.remote.address import Address
    from tfaot_pkg.remote.named import Trusting, add_remote

    session = Session()
    address = Address.parse(url, allow_http=allow_http)
    trusting = Trusting(root=root, fingerprint=fingerprint, unsigned=unsigned)
    remote, is_new = add_remote(name, address, trusting, session.folders, progress=session.progress)
    lines = [f"{remote.name}: {remote.address.url} {'added' if is_new else 'was known already'}"]
    if remote.root is not None:
        lines.append(f"pinned root: {remote.fingerprint}")
    else:
        lines.append("note: it is unsigned: whoever has that server, or the way to it, can give you anything")
    if remote.address.url.startswith("http://") and remote.address.allow_http:
        signed = "nobody can change it unnoticed, for it is signed; " if remote.root is not None else ""
        lines.append(f"note: plain http: {signed}what you fetch can be seen and held back on the way")
    session.result({**remote.as_dict(), "status": "added" if is_new else "known"}, "\n".join(lines))


def list_(*, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """List the registries that have a name.

    Example: tfaot-pkg registry list --json
    """
    from tfaot_pkg.remote.named import Remotes

    session = Session()
    remotes = Remotes.of(session.folders).all()
    lines = [
        f"{one.name}: {one.address.url} ({f'root {one.fingerprint[:16]}' if one.root is not None else 'unsigned'})"
        for one in remotes
    ]
    session.result({"registries": [one.as_dict() for one in remotes]}, "\n".join(lines) or "none")


def remove(name: NameArgument, *, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Forget a registry, its pinned root and what was kept of it.

    Example: tfaot-pkg registry remove cms
    """
    import shutil

    from tfaot_pkg.remote.cache import RemoteCache
    from tfaot_pkg.remote.named import Remotes

    session = Session()
    removed = Remotes.of(session.folders).remove(name)
    shutil.rmtree(RemoteCache.of(removed.address.url, session.folders).root, ignore_errors=True)
    session.result(removed.as_dict(), f"{name}: {removed.address.url} removed")
