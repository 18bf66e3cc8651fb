"""Commands about Conan remotes that packages are uploaded to: conan-remote add, list, remove."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import DebugFlag, JsonFlag
from tfaot_pkg.errors import ConanError, RegistryError

if TYPE_CHECKING:
    from tfaot_pkg.conan.home import ConanHome
    from tfaot_pkg.conan.remotes import ConanRemote, Credentials
    from tfaot_pkg.conan.upload import Uploaded
    from tfaot_pkg.publish import Publication

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Your name for the remote.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Conan remotes that `publish --remote` uploads to.", no_args_is_help=True)
    group.command()(add)
    group.command("list")(list_)
    group.command()(remove)
    app.add_typer(group, name="conan-remote")


def add(
    name: NameArgument,
    url: Annotated[str, typer.Argument(metavar="URL", help="Its address, as for `conan remote add`.")],
    *,
    user: Annotated[str, typer.Option(metavar="NAME", help="Who uploads.")] = "",
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file of yours alone (mode 600) whose first line is the password."),
    ] = None,
    allow_http: Annotated[
        bool,
        typer.Option("--allow-http", help="Take plain http to another machine: it sends the password in the open."),
    ] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a Conan remote known under a name, in place of one of the same name. It is not asked yet.

    User and password may also come from CONAN_LOGIN_USERNAME_NAME and CONAN_PASSWORD_NAME (the name in capitals,
    '_' for '-'), or the password from the terminal. No password is ever stored or logged.

    Example: tfaot-pkg conan-remote add ours https://conan.example.org --user ci --password-file ~/.conan-password
    """
    from tfaot_pkg.conan.remotes import ConanRemote, ConanRemotes
    from tfaot_pkg.remote.address import Address

    session = Session()
    file = os.path.abspath(password_file.expanduser()) if password_file is not None else ""
    try:
        address = Address.parse(url, allow_http=allow_http)
    except RegistryError as error:
        message = error.message.replace("a registry", "a Conan remote")
        raise ConanError(message, hint="write https://HOST/PATH; --user and --password-file say who uploads") from error
    remote = ConanRemote(name=name, address=address, user=user, password_file=file)
    ConanRemotes.of(session.folders).add(remote)
    session.result(remote.as_dict(), f"{remote.name}: {remote.url}")


def list_(*, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """List the Conan remotes.

    Example: tfaot-pkg conan-remote list
    """
    from tfaot_pkg.conan.remotes import ConanRemotes

    session = Session()
    remotes = ConanRemotes.of(session.folders).all()
    lines = [f"{one.name}: {one.url}" + (f" (user {one.user})" if one.user else "") for one in remotes]
    session.result({"remotes": [one.as_dict() for one in remotes]}, "\n".join(lines) or "no remotes")


def remove(name: NameArgument, *, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Forget a Conan remote. What was uploaded stays there.

    Example: tfaot-pkg conan-remote remove ours
    """
    from tfaot_pkg.conan.remotes import ConanRemotes

    session = Session()
    ConanRemotes.of(session.folders).remove(name)
    session.result({"removed": name}, f"{name}: removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploader:
    """What `publish --remote` needs: made before the build, so that a wrong password is told at once."""

    session: Session
    home: ConanHome
    remote: ConanRemote
    credentials: Credentials

    @classmethod
    def of(cls, session: Session, name: str, package: str) -> Uploader:
        """Raises ConanError (unknown remote, refused user), NetworkError."""
        from tfaot_pkg.conan.home import ConanHome
        from tfaot_pkg.conan.remotes import ConanRemotes, credentials_for
        from tfaot_pkg.conan.upload import require_access

        folders = session.folders
        remote = ConanRemotes.of(folders).get(name)
        credentials = credentials_for(remote, os.environ)
        home = ConanHome(root=folders.conan_home, log=folders.logs / f"conan-upload-{package}.log")
        require_access(home, remote, credentials)
        return cls(session=session, home=home, remote=remote, credentials=credentials)

    def upload(self, done: Publication) -> Uploaded:
        """Upload what was published; see tfaot_pkg/conan/upload.py."""
        from tfaot_pkg.conan.upload import upload

        package = done.conan or {}
        return upload(
            self.home,
            str(package["reference"]),
            str(package["recipe_revision"]),
            remote=self.remote,
            credentials=self.credentials,
            progress=self.session.progress,
        )
