"""Commands for the keepers of registries: init, refresh, verify, gc. Those about keys are in registry_keys.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli import registry_keys
from tfaot_pkg.cli.catalogue import render
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
from tfaot_pkg.wording import counted

if TYPE_CHECKING:
    from tfaot_pkg.registry.audit import Audit
    from tfaot_pkg.registry.collect import Collected
    from tfaot_pkg.registry.folder import FolderRegistry

app = typer.Typer(name="registry", help="Make, sign and look after registries.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    app.command()(init)
    app.command()(refresh)
    app.command()(verify)
    app.command()(gc)
    app.command()(render)
    registry_keys.register(app)
    parent.add_typer(app, name="registry")


def open_registry(
    registry: str | None, keys: list[Path] | None, passphrase_file: list[Path] | None, session: Session
) -> FolderRegistry:
    """The folder registry with the keys that the user names."""
    from tfaot_pkg.registry.folder import FolderRegistry

    return FolderRegistry.open(session.registry_folder(registry), keys=keys_of(keys, passphrase_file))


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where: a new or empty folder.")],
    *,
    keys: Annotated[Path, typer.Option("--keys", metavar="FOLDER", help="Where the keys go: outside of DIR.")],
    threshold: Annotated[int, typer.Option(help="How many root keys must sign a change of keys.")] = 1,
    root_keys: Annotated[int, typer.Option(help="How many root keys to make.")] = 1,
    bins: Annotated[int, typer.Option(metavar="BITS", help="2**BITS hash bins: 8 up to 100,000 packages.")] = 8,
    expires: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=DAYS",
            help="How long signatures last. Repeatable. (default: root, release 365; snapshot 30; timestamp 7)",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=URI", help="Use this key (hsm:, gcpkms:, awskms:, ...), make none. Repeatable."),
    ] = None,
    no_passphrase: NoPassphraseFlag = False,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make a signed registry, and the keys that sign it.

    Example: tfaot-pkg registry init /srv/models --keys ~/registry-keys --root-keys 3 --threshold 2
    """
    from tfaot_pkg.errors import RegistryError
    from tfaot_pkg.registry.signed.making import Plan, initialize
    from tfaot_pkg.trust.keys import ROLES
    from tfaot_pkg.trust.roles import Lifetimes

    session = Session()
    uris = tuple((role, uri) for role, _, uri in (word.partition("=") for word in key or ()))
    if any(role not in ROLES or not uri for role, uri in uris):
        raise RegistryError("--key: write ROLE=URI", hint=f"with a ROLE of {', '.join(ROLES)}")
    plan = Plan(
        root_keys=root_keys, threshold=threshold, bits=bins, lifetimes=Lifetimes.parse(expires or ()), uris=uris
    )
    passphrase, secrets = new_passphrase(passphrase_file, no_passphrase)
    made = initialize(folder, keys, plan, passphrase=passphrase, secrets=secrets)
    text = (
        f"{made.registry}: a signed registry\nkeys: {made.keys} (move the root keys to a safe place, and keep copies)\n"
        f"fingerprint of its root, for those who read it: {made.fingerprint}\n"
        + "".join(f"{role} signatures end at {when}\n" for role, when in made.expires.items())
        + "run `tfaot-pkg registry refresh` before that (cron), or readers refuse it"
    )
    session.result(made.as_dict(), text)


def refresh(
    registry: RegistryArgument = None,
    *,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Sign the timestamp anew, and what else grows old. Meant for cron.

    Example: tfaot-pkg registry refresh /srv/models --keys /etc/registry-keys --passphrase-file /run/secrets/registry
    """
    from tfaot_pkg.registry.signed.refreshing import refresh as refresh_registry

    session = Session()
    done = refresh_registry(open_registry(registry, keys, passphrase_file, session))
    signed = f"{len(done.signed)} files" if len(done.signed) > 4 else ", ".join(done.signed)
    lines = [f"signed: {signed}", *(f"{role} until {when}" for role, when in done.expires.items())]
    session.result(done.as_dict(), "\n".join([*lines, *(f"note: {note}" for note in done.notes)]))


def verify(registry: RegistryArgument = None, *, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Check every signature, every index line and every blob; exit code 0, or 18 with all faults.

    Example: tfaot-pkg registry verify /srv/models
    """
    from tfaot_pkg.errors import TrustError
    from tfaot_pkg.registry.audit import audit

    session = Session()
    found = audit(session.open_registry(registry), session.progress)
    session.result(found.as_dict(), _audit_text(found))
    if not found.ok:
        raise typer.Exit(TrustError.exit_code)


def _audit_text(found: Audit) -> str:
    numbers = ((found.packages, "package"), (found.versions, "version"), (found.blobs, "blob"), (found.size, "byte"))
    count = ", ".join(counted(number, what) for number, what in numbers)
    kind = "signed" if found.signed else "unsigned: damage would be seen, forgery would not"
    lines = [f"{found.registry}: {'everything is right' if found.ok else 'faults'} ({count}; {kind})"]
    lines += [f"fault: {fault}" for fault in found.faults]
    return "\n".join(lines + [f"note: {note}" for note in found.notes])


def gc(
    registry: RegistryArgument = None,
    *,
    grace: Annotated[str, typer.Option(help="Keep what became garbage less than this ago.")] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Remove what nothing refers to: leftovers of killed publishers, replaced metadata.

    Example: tfaot-pkg registry gc /srv/models --grace 30d --dry-run
    """
    from tfaot_pkg.registry.collect import collect, parse_grace

    session = Session()
    opened = open_registry(registry, None, None, session)
    done = collect(opened, grace=parse_grace(grace), dry_run=dry_run)
    session.result(done.as_dict(), _collected_text(done))


_SHOWN = 5
"""How many of the removed files are named."""


def _collected_text(done: Collected) -> str:
    what = "would be removed" if done.dry_run else "removed"
    lines = list(done.removed[:_SHOWN])
    if more := len(done.removed) - len(lines):
        lines.append(f"... and {more:,} more (--json lists all)")
    lines.append(f"{counted(len(done.removed), 'file')} {what} ({counted(done.size, 'byte')})")
    return "\n".join(lines + [f"in the grace period still: {counted(done.waiting, 'file')}"] * bool(done.waiting))
