"""Commands about servers that have a name: registry add, list, order, remove; conan-remote add, list, sync, remove."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.cli.groups import Group
from tfaot_pkg.cli.nightly.run import sync_conan_remote
from tfaot_pkg.errors import ConanError, RegistryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfaot_pkg.pipeline.conan.package import ConanHome
    from tfaot_pkg.pipeline.conan.upload import ConanRemote, Credentials, Uploaded
    from tfaot_pkg.pipeline.publish import Publication

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Your name for the registry.")]
ConanNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Your name for the remote.")]


def register(app: typer.Typer, registry: typer.Typer) -> None:
    """`registry` is the group of all commands about registries."""
    registry.command("add")(add_registry)
    registry.command("list")(list_registries)
    registry.command("order")(order_registries)
    registry.command("remove")(remove_registry)
    group = typer.Typer(cls=Group, help="Conan remotes that `publish --remote` uploads to.", no_args_is_help=True)
    group.command("add")(add_conan_remote)
    group.command("list")(list_conan_remotes)
    group.command("sync")(sync_conan_remote)
    group.command("remove")(remove_conan_remote)
    app.add_typer(group, name="conan-remote")


@command()
def add_registry(
    session: Session,
    name: NameArgument,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL|DIR", help="Its address: https://..., oci://HOST/REPOSITORY, s3://...; or its folder."
        ),
    ],
    *,
    root: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The registry's root (metadata/1.root.json), from its maintainer."),
    ] = None,
    fingerprint: Annotated[
        str,
        typer.Option(
            metavar="SHA256", help="The SHA-256 of the registry's root, from its maintainer, instead of --root."
        ),
    ] = "",
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Accept a registry without signatures.")] = False,
    allow_http: Annotated[bool, typer.Option("--allow-http", help="Accept plain http to another machine.")] = False,
) -> Result:
    """Give a registry a name, and pin the root that verifies everything in it.

    Get the root or its fingerprint from the registry's maintainer, and not from that server or folder.

    Examples: tfaot-pkg registry add cms https://models.example.org/registry --fingerprint 3f5c...;
    tfaot-pkg registry add cms /media/mirror --root 1.root.json; tfaot-pkg registry add cms
    oci://registry.example.org/cms/models --fingerprint 3f5c...
    """
    from tfaot_pkg.ground.objects import BucketAddress
    from tfaot_pkg.registry.named import Trusting, add_remote, address_meant
    from tfaot_pkg.registry.remote.address import Address

    address = address_meant(url, allow_http=allow_http)
    if isinstance(address, Path) and not address.is_dir():
        address = Address.parse(url)  # says what an address is
    trusting = Trusting(root=root, fingerprint=fingerprint, unsigned=unsigned)
    remote, is_new = add_remote(name, address, trusting, session.folders, progress=session.progress)
    lines = [f"{remote.name}: {remote.url} {'added' if is_new else 'was known already'}"]
    if remote.root is not None:
        lines.append(f"pinned root: {remote.fingerprint}")
    else:
        who = (
            "can write there"
            if isinstance(address, Path | BucketAddress)
            else "controls that server, or the connection,"
        )
        lines.append(f"note: it is unsigned: whoever {who} can give you anything")
    if remote.allow_http and not remote.url.startswith("https://"):
        signed = "changes would be noticed, because it is signed; " if remote.root is not None else ""
        lines.append(f"note: plain http: {signed}what you fetch can be read and withheld on the way")
    return Result(document={**remote.as_dict(), "status": "added" if is_new else "known"}, text="\n".join(lines))


@command()
def list_registries(session: Session) -> Result:
    """List the registries that have a name, and which are asked without --registry, the first one first.

    Example: tfaot-pkg registry list --json
    """
    from tfaot_pkg.registry.named import Remotes, standing

    remotes, order = Remotes.of(session.folders).all(), standing(session.folders)
    lines = [
        f"{one.name}: {one.url} ({f'root {one.fingerprint[:16]}' if one.root is not None else 'unsigned'})"
        for one in remotes
    ]
    if order:
        lines.append(_order_text(order))
    return Result(document={"registries": remotes, "order": order}, text="\n".join(lines) or "none")


def _order_text(order: Sequence[str]) -> str:
    return f"asked without --registry: {', '.join(order)}"


@command()
def order_registries(
    session: Session,
    registries: Annotated[
        list[str],
        typer.Argument(metavar="REGISTRY", help="Names (registry add) or folders: what is asked first in front."),
    ],
) -> Result:
    """Say which registries are asked first for a package without --registry. The first that has the package gives it.

    Those that are not named come after these, and your own in front unless its folder is named. It is written as
    `registries` into your settings (`tfaot-pkg settings`). The variable TFAOT_REGISTRY names one that is asked alone.

    Example: tfaot-pkg registry order cms hep
    """
    from tfaot_pkg.registry.named import set_order

    order = set_order(registries, session.folders)
    return Result(document={"order": order}, text=_order_text(order))


@command()
def remove_registry(session: Session, name: NameArgument) -> Result:
    """Forget a registry, its pinned root and its cache.

    Example: tfaot-pkg registry remove cms
    """
    import shutil

    from tfaot_pkg.registry.named import remove_remote
    from tfaot_pkg.registry.remote.cache import RemoteCache

    removed = remove_remote(name, session.folders)
    # Last: if this fails, only space is lost, because nothing reads the cache of a forgotten registry.
    shutil.rmtree(RemoteCache.of(removed.url, session.folders).root, ignore_errors=True)
    return Result(document=removed, text=f"{name}: {removed.url} removed")


@command()
def add_conan_remote(
    session: Session,
    name: ConanNameArgument,
    url: Annotated[str, typer.Argument(metavar="URL", help="The remote's address, as for `conan remote add`.")],
    *,
    user: Annotated[
        str, typer.Option(metavar="NAME", help="The user who uploads. (default: from CONAN_LOGIN_USERNAME_NAME)")
    ] = "",
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file that only you can read (mode 600); its first line is the password."),
    ] = None,
    allow_http: Annotated[
        bool,
        typer.Option("--allow-http", help="Accept plain http to another machine: it sends the password unencrypted."),
    ] = False,
) -> Result:
    """Give a Conan remote a name; one of the same name is replaced. No connection is made.

    User and password may also come from CONAN_LOGIN_USERNAME_NAME and CONAN_PASSWORD_NAME (the name in capitals,
    '_' for '-'), or the password from the terminal. No password is ever stored or logged.

    Example: tfaot-pkg conan-remote add ours https://conan.example.org --user ci --password-file ~/.conan-password
    """
    from tfaot_pkg.pipeline.conan.upload import ConanRemote, ConanRemotes
    from tfaot_pkg.registry.remote.address import Address

    # Absolute, because later commands may run in other folders.
    file = os.path.abspath(password_file.expanduser()) if password_file is not None else ""
    try:
        address = Address.parse(url, allow_http=allow_http)
    except RegistryError as error:
        # Address knows registries only, and its messages name them.
        message = error.message.replace("a registry", "a Conan remote")
        raise ConanError(message, hint="write https://HOST/PATH; --user and --password-file say who uploads") from error
    remote = ConanRemote(
        name=name, url=address.url.rstrip("/"), allow_http=address.allow_http, user=user, password_file=file
    )
    ConanRemotes.of(session.folders).add(remote)
    return Result(document=remote, text=f"{remote.name}: {remote.url}")


@command()
def list_conan_remotes(session: Session) -> Result:
    """List the Conan remotes.

    Example: tfaot-pkg conan-remote list
    """
    from tfaot_pkg.pipeline.conan.upload import ConanRemotes

    remotes = ConanRemotes.of(session.folders).all()
    lines = [f"{one.name}: {one.url}" + (f" (user {one.user})" if one.user else "") for one in remotes]
    return Result(document={"remotes": remotes}, text="\n".join(lines) or "no remotes")


@command()
def remove_conan_remote(session: Session, name: ConanNameArgument) -> Result:
    """Forget a Conan remote. Uploaded packages stay there.

    Example: tfaot-pkg conan-remote remove ours
    """
    from tfaot_pkg.pipeline.conan.upload import ConanRemotes

    ConanRemotes.of(session.folders).remove(name)
    return Result(document={"removed": name}, text=f"{name}: removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploader:
    """The upload of `publish --remote`. Made before the build, so that a wrong password is reported at once."""

    session: Session
    home: ConanHome
    remote: ConanRemote
    credentials: Credentials

    @classmethod
    def of(cls, session: Session, name: str, package: str) -> Uploader:
        """Raises ConanError (unknown remote, user rejected), NetworkError."""
        from tfaot_pkg.pipeline.conan.package import ConanHome
        from tfaot_pkg.pipeline.conan.upload import ConanRemotes, credentials_for, require_access

        folders = session.folders
        remote = ConanRemotes.of(folders).get(name)
        credentials = credentials_for(remote, os.environ)
        home = ConanHome(root=folders.conan_home, log=folders.logs / f"conan-upload-{package}.log")
        require_access(home, remote, credentials)
        return cls(session=session, home=home, remote=remote, credentials=credentials)

    def upload(self, done: Publication) -> Uploaded:
        """Upload the published package; see tfaot_pkg/pipeline/conan/upload.py."""
        from tfaot_pkg.pipeline.conan.upload import upload

        package = done.conan or {}
        return upload(
            self.home,
            str(package["reference"]),
            str(package["recipe_revision"]),
            remote=self.remote,
            credentials=self.credentials,
            progress=self.session.progress,
        )
