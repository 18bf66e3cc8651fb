"""Commands for the maintainers of registries: init, refresh, verify, retire, gc, render, and serve.

Keys: registry_keys.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli import registry_keys
from tfaot_pkg.cli.command import DryRunFlag, Result, Session, command, said
from tfaot_pkg.cli.groups import Group
from tfaot_pkg.errors import RegistryError, TfaotError
from tfaot_pkg.ground.wording import counted, say, say_json

if TYPE_CHECKING:
    from tfaot_pkg.catalogue.render import Rendered
    from tfaot_pkg.registry.audit import Audit, Collected
    from tfaot_pkg.registry.places import Place

app = typer.Typer(cls=Group, name="registry", help="Make, sign, check and name registries.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    for each in (init, refresh, verify, retire, gc, render):
        app.command()(each)
    registry_keys.register(app)
    parent.add_typer(app, name="registry")
    parent.command()(serve)


@command("passphrase_file", "no_passphrase")
def init(
    session: Session,
    place: Annotated[
        str,
        typer.Argument(metavar="DIR", help="The registry's folder, new or empty; or s3://BUCKET/PREFIX, of a bucket."),
    ],
    *,
    keys: Annotated[Path, typer.Option("--keys", metavar="FOLDER", help="The folder for the keys, outside of DIR.")],
    threshold: Annotated[int, typer.Option(help="How many root keys must sign a key rotation.")] = 1,
    root_keys: Annotated[int, typer.Option(help="How many root keys to make.")] = 1,
    # 8: at 100,000 packages each file has 65 KB (decision 011).
    bins: Annotated[
        int, typer.Option(metavar="BITS", help="Divide the index into 2**BITS files; 8 is enough for 100,000 packages.")
    ] = 8,
    expires: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=DAYS",
            help="How long signatures are valid. Repeatable. (default: root, release 365; snapshot 30; timestamp 7)",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=URI", help="Use this key (hsm:, gcpkms:, awskms:, ...) instead of a new one. Repeatable."
        ),
    ] = None,
) -> Result:
    """Make a signed registry and its keys.

    Example: tfaot-pkg registry init /srv/models --keys ~/registry-keys --root-keys 3 --threshold 2
    """
    from tfaot_pkg.registry.places import bucket_meant
    from tfaot_pkg.registry.signing import Plan, initialize
    from tfaot_pkg.registry.trust.keys import ROLES
    from tfaot_pkg.registry.trust.roles import Lifetimes

    # Divided at the first "=": the URI may have others, such as hsm:2?label=YubiKey.
    uris = tuple((role, uri) for role, _, uri in (word.partition("=") for word in key or ()))
    if any(role not in ROLES or not uri for role, uri in uris):
        raise RegistryError("--key: write ROLE=URI", hint=f"with a ROLE of {', '.join(ROLES)}")
    plan = Plan(
        root_keys=root_keys, threshold=threshold, bits=bins, lifetimes=Lifetimes.parse(expires or ()), uris=uris
    )
    passphrase, secrets = session.new_passphrase()
    made = initialize(bucket_meant(place) or Path(place), keys, plan, passphrase=passphrase, secrets=secrets)
    text = (
        f"{made.registry}: a signed registry\nkeys: {made.keys} (move the root keys to a safe place, and keep copies)\n"
        f"fingerprint of its root, for users: {made.fingerprint}\n"
        + "".join(f"{role} signatures expire at {when}\n" for role, when in made.expires.items())
        + "run `tfaot-pkg registry refresh` before that (cron), else readers reject it"
    )
    return Result(document=made, text=text)


@command("registry_argument", "keys", "passphrase_file")
def refresh(
    session: Session,
    *,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Sign by this machine's clock, whatever the last signatures say.")
    ] = False,
) -> Result:
    """Sign the timestamp again, and other metadata that expires soon. Meant for cron.

    Nothing is signed if the clock contradicts the last signatures: readers would reject what a wrong clock signs.

    Example: tfaot-pkg registry refresh /srv/models --keys /etc/registry-keys --passphrase-file /run/secrets/registry
    """
    from tfaot_pkg.registry.signing import refresh as refresh_registry

    done = refresh_registry(session.writable_registry(), trust_clock=trust_clock)
    # All bins of the index may be among them, up to 2**BITS names.
    signed = f"{len(done.signed)} files" if len(done.signed) > 4 else ", ".join(done.signed)
    lines = [f"signed: {signed}", *(f"{role} until {when}" for role, when in done.expires.items())]
    return Result(document=done, text="\n".join([*lines, *(f"note: {note}" for note in done.notes)]))


@command("registry_argument")
def verify(
    session: Session,
    *,
    within: Annotated[
        str, typer.Option(metavar="TIME", help="Report as faults what signatures expire within this time: 7d, 12h.")
    ] = "0s",
) -> Result:
    """Check every signature, every index line and every blob; exit code 0, or 18 and a list of all faults.

    Examples: tfaot-pkg registry verify /srv/models; tfaot-pkg registry verify /srv/models --within 2d
    """
    from tfaot_pkg.errors import TrustError
    from tfaot_pkg.registry.audit import audit, parse_period

    found = audit(session.open_registry(), session.progress, within=parse_period(within))
    exit_code = 0 if found.ok else TrustError.exit_code
    return Result(document=found, text=_audit_text(found), exit_code=exit_code)


def _audit_text(found: Audit) -> str:
    numbers = ((found.packages, "package"), (found.versions, "version"), (found.blobs, "blob"), (found.size, "byte"))
    count = ", ".join(counted(number, what) for number, what in numbers)
    kind = "signed" if found.signed else "unsigned: damage is detected, forgery is not"
    lines = [f"{found.registry}: {'no faults' if found.ok else 'faults'} ({count}; {kind})"]
    lines += [f"fault: {fault}" for fault in found.faults]
    return "\n".join(lines + [f"note: {note}" for note in found.notes])


@command("registry_argument")
def gc(
    session: Session,
    *,
    # Readers that hold an older state may still ask for its files; 7 days as GRACE in registry/audit.py.
    grace: Annotated[str, typer.Option(help="Keep files that became unused less than this time ago.")] = "7d",
    dry_run: DryRunFlag = False,
) -> Result:
    """Remove files that nothing refers to: leftovers of killed publishers, replaced metadata.

    Example: tfaot-pkg registry gc /srv/models --grace 30d --dry-run
    """
    from tfaot_pkg.registry.audit import collect, parse_period

    done = collect(session.writable_registry(), grace=parse_period(grace), dry_run=dry_run)
    return Result(document=done, text=_collected_text(done))


@command("registry_argument", "keys", "passphrase_file")
def retire(
    session: Session,
    *,
    keep_builds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the newest N builds of each version and toolchain. (default: all)"),
    ] = None,
    keep_toolchains: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep the builds of a version with the newest N toolchains. (default: all)"
        ),
    ] = None,
    lock: Annotated[
        list[Path] | None,
        typer.Option("--lock", metavar="FILE", help="A lock file whose builds stay. Repeatable."),
    ] = None,
    dry_run: DryRunFlag = False,
) -> Result:
    """Let old builds of nights go: they keep their place in the index, and `gc` removes their files after its grace.

    What a channel has, or would get back by a rollback, stays, as do versions that no night published, and yanked ones.

    Example: tfaot-pkg registry retire /srv/models --keep-builds 3 --lock analysis/tfaot.lock --dry-run
    """
    from tfaot_pkg.catalogue.render import update_or_note
    from tfaot_pkg.registry.dependencies.lock import Lock
    from tfaot_pkg.registry.retention import Retention, locked_trees
    from tfaot_pkg.registry.retention import retire as retire_in

    if keep_builds is None and keep_toolchains is None:
        raise typer.BadParameter("say what to keep: --keep-builds N, --keep-toolchains N or both")
    trees = {tree for path in lock or () for tree in locked_trees(Lock.read(path))}
    registry = session.writable_registry()
    rules = Retention(builds=keep_builds, toolchains=keep_toolchains, trees=frozenset(trees))
    done = retire_in(registry, rules, dry_run=dry_run)
    for name in () if dry_run else done:
        update_or_note(registry, name, session.progress)
    lines = [f"{name}@{version}" for name, versions in done.items() for version in versions]
    what = "would be retired" if dry_run else "retired"
    text = "\n".join([*lines[:_SHOWN], *([f"... and {len(lines) - _SHOWN:,} more"] * (len(lines) > _SHOWN))])
    document = {"retired": done, "dry_run": dry_run}
    return Result(document=document, text=f"{text}\n{counted(len(lines), 'build')} {what}".strip())


_SHOWN = 5
"""How many removed files the text names."""


def _collected_text(done: Collected) -> str:
    what = "would be removed" if done.dry_run else "removed"
    lines = list(done.removed[:_SHOWN])
    if more := len(done.removed) - len(lines):
        lines.append(f"... and {more:,} more (--json lists all)")
    lines.append(f"{counted(len(done.removed), 'file')} {what} ({counted(done.size, 'byte')})")
    return "\n".join(lines + [f"still in the grace period: {counted(done.waiting, 'file')}"] * bool(done.waiting))


@command("registry")
def render(
    session: Session,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder to write. (default: catalogue/ in the registry's folder)"
        ),
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The registry's address, which the pages show; later updates keep it. "
            "(default: the address under which a browser loads the page)",
        ),
    ] = "",
    log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="An access log (nginx, Apache, or what `serve` prints), for the downloads of its last 30 days; later "
            "updates keep them. Repeatable.",
        ),
    ] = None,
) -> Result:
    """Write the catalogue: a static web site of all packages. Each publication updates it.

    Examples: tfaot-pkg registry render --registry /srv/models --url https://models.example.org;
    tfaot-pkg registry render --registry hep -o site
    """
    from tfaot_pkg.catalogue.downloads import downloads_of
    from tfaot_pkg.catalogue.render import FOLDER
    from tfaot_pkg.catalogue.render import render as render_catalogue
    from tfaot_pkg.registry.remote.address import Address

    # Pages only show the address: whether plain http is accepted is decided by each client.
    address = Address.parse(url, allow_http=True).url if url else ""
    folder = output.absolute() if output is not None else _folder(session.registry_place()) / FOLDER
    downloads = downloads_of(log) if log else None
    done = render_catalogue(
        session.open_registry(), folder, url=address, downloads=downloads, progress=session.progress
    )
    return Result(document=done, text=_rendered_text(done))


def _folder(place: Place) -> Path:
    if not isinstance(place, Path):
        raise RegistryError(f"{place} has no folder for the catalogue", hint="name one with -o, and upload it")
    return place


def _rendered_text(done: Rendered) -> str:
    lines = [f"{done.folder}: {counted(done.packages, 'package')}, {counted(done.files, 'file')}"]
    return "\n".join([*lines, *(f"left out: {message}" for message in done.damaged)])


@command()
def serve(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The registry's folder.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 means all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 means any free one.")] = 8080,
) -> None:
    """Serve a registry over HTTP, read-only, until Ctrl-C. Prints the address; a line per request on standard error.

    Put a server for https in front of it (nginx: registry/nginx.conf): clients accept plain http from their own machine
    only, unless `registry add --allow-http` said otherwise.

    Example: tfaot-pkg serve /srv/models --port 0
    """
    try:
        from tfaot_pkg.registry.server.run import serve as run
    except ModuleNotFoundError as error:
        raise TfaotError(
            f"serving needs a module that is not installed: {error.name}", hint="pip install 'tfaot-pkg[serve]'"
        ) from error

    # Called when the port is bound: scripts wait for this line before they connect, and --port 0 is known only then.
    def ready(url: str) -> None:
        if said.json:
            # On one line: who reads it while the server runs must know where the document ends.
            say_json({"url": url, "folder": str(folder)}, lines=False)
        else:
            say(f"serving {folder} at {url}", to=sys.stdout)

    run(folder, host=host, port=port, ready=ready)
    # With --json standard output holds one document, which `ready` has printed.
    if not said.json:
        say("stopped", to=sys.stdout)
