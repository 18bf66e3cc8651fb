"""Commands about who may sign a registry: keys new, add, revoke, threshold, renew, list; sign, apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import (
    DebugFlag,
    JsonFlag,
    KeysOption,
    NoPassphraseFlag,
    PassphraseFileOption,
    RegistryArgument,
    keys_of,
    new_passphrase,
)

if TYPE_CHECKING:
    from tfaot_pkg.registry.folder import FolderRegistry
    from tfaot_pkg.registry.signed.keys import KeysChanged

keys_app = typer.Typer(name="keys", help="Who may sign a registry.", no_args_is_help=True)

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="root, release, snapshot or timestamp.")]
ThresholdOption = Annotated[
    int | None, typer.Option(metavar="N", help="How many keys of the role must sign from now on.")
]
PendingOption = Annotated[
    Path | None,
    typer.Option(
        "--pending", metavar="FILE", help="Change nothing yet: write FILE for other root keys (registry sign, apply)."
    ),
]
PendingArgument = Annotated[Path, typer.Argument(metavar="FILE", help="What --pending wrote.")]


def register(parent: typer.Typer) -> None:
    """`registry keys ...`, `registry sign` and `registry apply`."""
    keys_app.command()(new)
    keys_app.command()(add)
    keys_app.command()(revoke)
    keys_app.command()(threshold)
    keys_app.command()(renew)
    keys_app.command("list")(list_)
    parent.add_typer(keys_app)
    parent.command()(sign)
    parent.command()(apply)


def _open(
    registry: str | None, keys: list[Path] | None, passphrase_file: list[Path] | None, session: Session
) -> FolderRegistry:
    from tfaot_pkg.registry.folder import FolderRegistry

    return FolderRegistry.open(session.registry_folder(registry), keys=keys_of(keys, passphrase_file))


def _show(session: Session, done: KeysChanged, verb: str) -> None:
    lines = [*done.succession.description(), f"digest of the change: {done.succession.digest}"]
    if done.pending and done.lacking:
        lines.append(
            f"{verb}: {done.lacking}. Let others sign {done.pending}: registry sign {done.pending} --keys FOLDER"
        )
    elif done.pending:
        lines.append(f"{verb}: all root keys that it needs have signed. Make it hold: registry apply {done.pending}")
    else:
        lines.append("this holds from now on")
    session.result(done.as_dict(), "\n".join(lines))


def new(
    role: RoleArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where: a key folder, or a new one.")],
    *,
    no_passphrase: NoPassphraseFlag = False,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a key that no registry knows yet. Hand its .pub file to the registry's keeper (keys add --public).

    Example: tfaot-pkg registry keys new release ~/my-keys
    """
    from tfaot_pkg.registry.signed.keys import new_key

    session = Session()
    passphrase, secrets = new_passphrase(passphrase_file, no_passphrase)
    record, public = new_key(_role(role), folder, passphrase, secrets)
    session.result(
        {"role": record.role, "keyid": record.keyid, "uri": record.uri, "public": str(public)},
        f"{record.keyid} for {record.role}; its public half: {public}",
    )


def add(
    role: RoleArgument,
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    uri: Annotated[
        str | None, typer.Option(help="A key that exists (hsm:, gcpkms:, awskms:, file:...). (default: make one)")
    ] = None,
    public: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The public half (.pub) of a key that someone else keeps.")
    ] = None,
    threshold: ThresholdOption = None,
    pending: PendingOption = None,
    no_passphrase: NoPassphraseFlag = False,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Trust one more key. Needs the root keys; a new key goes to the first --keys folder.

    Example: tfaot-pkg registry keys add release /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signed.keys import NewKey, add_key

    session = Session()
    opened = _open(registry, keys, passphrase_file, session)
    passphrase, _ = new_passphrase(passphrase_file, no_passphrase)
    key = NewKey(uri=uri, public=public, passphrase=passphrase)
    _show(session, add_key(opened, _role(role), key, threshold=threshold, pending=pending), "written, not yet in force")


def revoke(
    role: RoleArgument,
    keyid: Annotated[str, typer.Argument(metavar="KEYID", help="The key's id, or its beginning.")],
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    threshold: ThresholdOption = None,
    pending: PendingOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Trust a key no more; all that it signed is signed by the others first. Needs the root keys.

    Example: tfaot-pkg registry keys revoke release 75da3a /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signed.keys import revoke_key

    session = Session()
    opened = _open(registry, keys, passphrase_file, session)
    done = revoke_key(opened, _role(role), keyid, threshold=threshold, pending=pending)
    _show(session, done, "written, not yet in force")


def threshold(
    role: RoleArgument,
    number: Annotated[int, typer.Argument(metavar="N", help="How many keys of the role must sign.")],
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    pending: PendingOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Say how many keys of a role must sign. Needs the root keys.

    Example: tfaot-pkg registry keys threshold release 2 /srv/models --keys ~/root-keys --keys ~/release-keys
    """
    from tfaot_pkg.registry.signed.keys import set_threshold

    session = Session()
    opened = _open(registry, keys, passphrase_file, session)
    _show(session, set_threshold(opened, _role(role), number, pending=pending), "written, not yet in force")


def renew(
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    pending: PendingOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Sign root anew as it is, before it expires. Needs the root keys.

    Example: tfaot-pkg registry keys renew /srv/models --pending root.json
    """
    from tfaot_pkg.registry.signed.keys import renew_root

    session = Session()
    opened = _open(registry, keys, passphrase_file, session)
    _show(session, renew_root(opened, pending=pending), "written, not yet in force")


def list_(
    registry: RegistryArgument = None, *, keys: KeysOption = None, json_: JsonFlag = False, debug: DebugFlag = False
) -> None:
    """Show the keys that a registry trusts.

    Example: tfaot-pkg registry keys list /srv/models
    """
    from tfaot_pkg.registry.signed.keys import list_keys

    session = Session()
    found = list_keys(_open(registry, keys, None, session))
    lines = [
        f"{one.role:<10} {one.keyid}  {one.scheme}  threshold {one.threshold}{'  at hand' if one.at_hand else ''}"
        for one in found
    ]
    session.result({"keys": [one.as_dict() for one in found]}, "\n".join(lines))


def sign(
    file: PendingArgument,
    *,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Add the signatures of root keys to a pending change, on any machine; without --keys only show what it changes.

    Example: tfaot-pkg registry sign change.json --keys /media/safe/root-keys
    """
    from tfaot_pkg.registry.signed.keys import KeysChanged, read_pending, sign_pending

    session = Session()
    if not keys:
        _show(session, KeysChanged(succession=read_pending(file), pending=file), "not signed here")
        return
    _show(session, sign_pending(file, keys_of(keys, passphrase_file)), "signed, not yet in force")


def apply(
    file: PendingArgument,
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a pending change hold that enough root keys have signed. Needs the keys that sign in its wake, no root key.

    Example: tfaot-pkg registry apply change.json /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signed.keys import apply_pending

    session = Session()
    _show(session, apply_pending(_open(registry, keys, passphrase_file, session), file), "")


def _role(text: str) -> str:
    from tfaot_pkg.errors import RegistryError
    from tfaot_pkg.trust.keys import ROLES

    if text not in ROLES:
        raise RegistryError(f"{text!r} is no role", hint=f"roles are {', '.join(ROLES)}")
    return text
