"""Commands about the keys of a registry: keys new, add, revoke, threshold, renew, list; sign, apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.cli.groups import Group

if TYPE_CHECKING:
    from tfaot_pkg.registry.signing_keys import KeysChanged

keys_app = typer.Typer(cls=Group, name="keys", help="Who may sign a registry.", no_args_is_help=True)

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="root, release, snapshot or timestamp.")]
ThresholdOption = Annotated[
    int | None, typer.Option(metavar="N", help="How many keys of the role must sign from now on.")
]
PendingOption = Annotated[
    Path | None,
    typer.Option(
        "--pending",
        metavar="FILE",
        help="Change nothing yet: write FILE, for other root keys to sign (registry sign, apply).",
    ),
]
PendingArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file that --pending wrote.")]


def register(parent: typer.Typer) -> None:
    """`registry keys ...`, `registry sign` and `registry apply`."""
    for each in (new, add, revoke, threshold, renew):
        keys_app.command()(each)
    keys_app.command("list")(list_)
    parent.add_typer(keys_app)
    parent.command()(sign)
    parent.command()(apply)


def _result(done: KeysChanged, verb: str = "written, not yet in force") -> Result:
    # Maintainers compare the digest by telephone before they sign: the file may have been replaced on its way to them.
    lines = [*done.rotation.description(), f"digest of the rotation: {done.rotation.digest}"]
    if done.pending and done.lacking:
        lines.append(
            f"{verb}: {done.lacking}. Others sign {done.pending} with: registry sign {done.pending} --keys FOLDER"
        )
    elif done.pending:
        lines.append(f"{verb}: enough root keys have signed. Apply it: registry apply {done.pending}")
    else:
        lines.append("in force from now on")
    return Result(document=done, text="\n".join(lines))


@command("passphrase_file", "no_passphrase")
def new(
    session: Session,
    role: RoleArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of keys, or a new one.")],
) -> Result:
    """Make a key that no registry knows yet. Give its .pub file to the registry's maintainer (keys add --public).

    Example: tfaot-pkg registry keys new release ~/my-keys
    """
    from tfaot_pkg.registry.signing_keys import new_key

    passphrase, secrets = session.new_passphrase()
    record, public = new_key(_role(role), folder, passphrase, secrets)
    return Result(
        document={"role": record.role, "keyid": record.keyid, "uri": record.uri, "public": str(public)},
        text=f"{record.keyid} for {record.role}; its public half: {public}",
    )


@command("registry_argument", "keys", "passphrase_file", "no_passphrase")
def add(
    session: Session,
    role: RoleArgument,
    *,
    uri: Annotated[
        str | None, typer.Option(help="An existing key (hsm:, gcpkms:, awskms:, file:...). (default: make one)")
    ] = None,
    public: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The public half (.pub) of a key that another maintainer holds.")
    ] = None,
    threshold: ThresholdOption = None,
    pending: PendingOption = None,
) -> Result:
    """Trust one more key. Needs the root keys; a new key goes to the first --keys folder.

    Example: tfaot-pkg registry keys add release /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signing_keys import NewKey, add_key

    opened = session.writable_registry()
    # Asks for nothing yet: with --uri or --public no key is made, and none has to be encrypted.
    passphrase, _ = session.new_passphrase()
    key = NewKey(uri=uri, public=public, passphrase=passphrase)
    return _result(add_key(opened, _role(role), key, threshold=threshold, pending=pending))


@command("registry_argument", "keys", "passphrase_file")
def revoke(
    session: Session,
    role: RoleArgument,
    keyid: Annotated[str, typer.Argument(metavar="KEYID", help="The key's id, or its beginning.")],
    *,
    threshold: ThresholdOption = None,
    pending: PendingOption = None,
) -> Result:
    """Stop trusting a key, after other keys have signed all that it signed. Needs the root keys.

    Example: tfaot-pkg registry keys revoke release 75da3a /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signing_keys import revoke_key

    opened = session.writable_registry()
    done = revoke_key(opened, _role(role), keyid, threshold=threshold, pending=pending)
    return _result(done)


@command("registry_argument", "keys", "passphrase_file")
def threshold(
    session: Session,
    role: RoleArgument,
    number: Annotated[int, typer.Argument(metavar="N", help="How many keys of the role must sign.")],
    *,
    pending: PendingOption = None,
) -> Result:
    """Set how many keys of a role must sign. Needs the root keys.

    Example: tfaot-pkg registry keys threshold release 2 /srv/models --keys ~/root-keys --keys ~/release-keys
    """
    from tfaot_pkg.registry.signing_keys import set_threshold

    opened = session.writable_registry()
    return _result(set_threshold(opened, _role(role), number, pending=pending))


@command("registry_argument", "keys", "passphrase_file")
def renew(
    session: Session,
    *,
    pending: PendingOption = None,
) -> Result:
    """Sign root again, unchanged, before it expires. Needs the root keys.

    Example: tfaot-pkg registry keys renew /srv/models --pending root.json
    """
    from tfaot_pkg.registry.signing_keys import renew_root

    opened = session.writable_registry()
    return _result(renew_root(opened, pending=pending))


@command("registry_argument", "keys")
def list_(session: Session) -> Result:
    """Show the keys that a registry trusts.

    Example: tfaot-pkg registry keys list /srv/models
    """
    from tfaot_pkg.registry.signing_keys import list_keys

    found = list_keys(session.writable_registry())
    lines = [
        f"{one.role:<10} {one.keyid}  {one.scheme}  threshold {one.threshold}{'  at hand' if one.at_hand else ''}"
        for one in found
    ]
    return Result(document={"keys": found}, text="\n".join(lines))


@command("keys", "passphrase_file")
def sign(
    session: Session,
    file: PendingArgument,
) -> Result:
    """Sign a pending key rotation with root keys, on any machine. Without --keys, only show what it changes.

    Example: tfaot-pkg registry sign change.json --keys /media/safe/root-keys
    """
    from tfaot_pkg.registry.signing_keys import KeysChanged, read_pending, sign_pending

    # Without keys: a maintainer reads what the rotation changes before signing it.
    if not session.flags.keys:
        return _result(KeysChanged(rotation=read_pending(file), pending=file), "not signed here")
    return _result(sign_pending(file, session.keys()), "signed, not yet in force")


@command("registry_argument", "keys", "passphrase_file")
def apply(
    session: Session,
    file: PendingArgument,
) -> Result:
    """Apply a pending key rotation that enough root keys have signed. Needs the keys below root, but no root key.

    Example: tfaot-pkg registry apply change.json /srv/models --keys ~/registry-keys
    """
    from tfaot_pkg.registry.signing_keys import apply_pending

    return _result(apply_pending(session.writable_registry(), file), "")


def _role(text: str) -> str:
    from tfaot_pkg.errors import RegistryError
    from tfaot_pkg.registry.trust.keys import ROLES

    if text not in ROLES:
        raise RegistryError(f"{text!r} is not a role", hint=f"roles are {', '.join(ROLES)}")
    return text
