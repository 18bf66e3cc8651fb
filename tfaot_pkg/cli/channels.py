"""Commands about channels: promote, hold, rollback, log, and `registry channels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfaot_pkg.registry.channels import Channels
    from tfaot_pkg.registry.history import Happened
    from tfaot_pkg.registry.writable import WritableRegistry

ChannelOption = Annotated[
    str, typer.Option("--channel", metavar="NAME", help="The channel. (default: the registry's default one)")
]
FollowOption = Annotated[
    str,
    typer.Option(
        "--channel",
        metavar="NAME",
        help="Choose from this channel. (default: the registry's default one, if it has any)",
    ),
]
ByOption = Annotated[str, typer.Option("--by", metavar="WHO", help="Who does it, for the log. (default: your login)")]


def register(app: typer.Typer, registries: typer.Typer) -> None:
    for each in (promote, hold, rollback, log):
        app.command()(each)
    registries.command()(channels)


@command("registry", "keys", "passphrase_file")
def promote(
    session: Session,
    packages: Annotated[
        list[str] | None,
        typer.Argument(metavar="PACKAGE", help="Packages: NAME or NAME@VERSION.", show_default=False),
    ] = None,
    *,
    channel: ChannelOption = "",
    reason: Annotated[str, typer.Option(help="Why; users of the package see it.")] = "",
    by: ByOption = "",
    everything: Annotated[bool, typer.Option("--all", help="All packages that have something to promote.")] = False,
    toolchain: Annotated[
        str,
        typer.Option("--toolchain", metavar="SPEC", help="Only builds by this TensorFlow: '>=2.17,<2.20' or 2.17.1."),
    ] = "",
    due: Annotated[bool, typer.Option("--due", help="Promote what the registry's rules say is due. For cron.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --due: only say what would be promoted.")] = False,
) -> Result:
    """Put builds into a channel: the newest of the channel before it, or the named ones. One signing for all of them.

    Examples: tfaot-pkg promote digits --channel candidate; tfaot-pkg promote --due
    """
    from tfaot_pkg.registry import promotion

    if due:
        if packages or everything or channel or toolchain or reason:
            raise typer.BadParameter("--due promotes what the registry's rules say: give no packages or other options")
        opened = session.writable_registry()
        done, waiting = promotion.promote_due(opened, by=by or "rule", dry_run=dry_run)
        _update_pages(session, opened, [] if dry_run else [one.package for one in done])
        text = "\n".join([*map(str, done), *map(str, waiting)]) or "nothing is due"
        return Result(document={"promoted": done, "waiting": waiting, "dry_run": dry_run}, text=text)
    if dry_run:
        raise typer.BadParameter("--dry-run needs --due")
    if bool(packages) == everything:
        raise typer.BadParameter("name packages, or give --all")
    opened = session.writable_registry()
    names, left = (packages, ()) if packages else promotion.with_something_new(opened, channel, toolchain)
    done = promotion.promote(opened, names, channel, reason=reason, by=by, toolchain=toolchain)
    _update_pages(session, opened, [one.package for one in done])
    return Result(
        document={"promoted": done, "waiting": left},
        text="\n".join([*map(str, done), *map(str, left)]) or _nothing_text(opened, packages or (), channel),
    )


@command("registry", "keys", "passphrase_file")
def hold(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="The package.")],
    *,
    channel: ChannelOption = "",
    reason: Annotated[str, typer.Option(help="Why (required, unless with --undo).")] = "",
    by: ByOption = "",
    undo: Annotated[bool, typer.Option("--undo", help="Undo the hold.")] = False,
) -> Result:
    """Let nothing be promoted into a channel of a package, neither by rules nor by people.

    Example: tfaot-pkg hold digits --channel stable --reason "the analysis is being published"
    """
    from tfaot_pkg.package.name import package_meant_by
    from tfaot_pkg.registry import promotion

    opened = session.writable_registry()
    if undo:
        chosen = promotion.unhold(opened, package, channel, reason=reason, by=by)
    else:
        _require_reason(reason)
        chosen = promotion.hold(opened, package, channel, reason=reason, by=by)
    name = package_meant_by(package)
    _update_pages(session, opened, [name])
    document = {"package": name, "channel": chosen, "held": not undo}
    return Result(document=document, text=f"{name}: {chosen} is {'not held' if undo else f'held ({reason})'}")


@command("registry", "keys", "passphrase_file")
def rollback(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="NAME (what was promoted last), or NAME@VERSION.")],
    *,
    reason: Annotated[str, typer.Option(help="Why (required); users of the package see it.")] = "",
    channel: ChannelOption = "",
    by: ByOption = "",
) -> Result:
    """Take a build out of a channel: it has again what it had before. Rules never promote the build again.

    Example: tfaot-pkg rollback digits --reason "wrong answers for empty images"
    """
    from tfaot_pkg.registry import promotion

    _require_reason(reason)
    opened = session.writable_registry()
    done = promotion.rollback(opened, package, channel, reason=reason, by=by)
    _update_pages(session, opened, [done.package])
    return Result(document=done, text=f"{done}\n{_standing_text(opened, done.package, done.channel)}")


@command("registry", "offline")
def log(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="The package.")],
) -> Result:
    """Show what happened to a package: who did what, when and why. Every signature in it is checked.

    Example: tfaot-pkg log digits
    """
    from tfaot_pkg.package.name import package_meant_by
    from tfaot_pkg.registry.history import history

    found = history(session.open_registry_of(package), package)
    document = {"package": package_meant_by(package), "events": found}
    return Result(document=document, text="\n".join(map(_happened_text, found)))


def _happened_text(one: Happened) -> str:
    who = one.by + (f" (key {', '.join(key[:12] for key in one.keys)})" if one.keys else "")
    what = " ".join(filter(None, [one.do, one.build, one.channel and f"[{one.channel}]"]))
    # On one line: a reason with line ends could look like another event.
    line = " ".join(" ".join([one.at, what, who and f"by {who}", one.reason and f"- {one.reason}"]).split())
    # A promotion says all with its build; of other events it is seen only here what the channels got.
    moves = () if one.do == "promote" else one.moves
    return "\n".join([line, *(f"    {each.channel} of {each.version}: {each.build or 'no build'}" for each in moves)])


@command("registry_argument", "keys", "passphrase_file")
def channels(
    session: Session,
    *,
    names: Annotated[
        str,
        typer.Option(
            "--set",
            metavar="NAMES",
            help="Channels in the order of promotion: nightly,candidate,stable. The first has all that is published.",
        ),
    ] = "",
    default: Annotated[
        str, typer.Option("--default", metavar="NAME", help="What install and resolve follow. (default: the last one)")
    ] = "",
    nights: Annotated[
        list[str] | None,
        typer.Option(
            "--nights",
            metavar="NAME=N",
            help="Promote into NAME after N nights in the channel before; 0: by hand only. Repeatable.",
        ),
    ] = None,
    canary: Annotated[
        list[str] | None,
        typer.Option(
            "--canary", metavar="NAME=PACKAGE", help="Promote others into NAME only after this package. Repeatable."
        ),
    ] = None,
    by: ByOption = "",
) -> Result:
    """Show the channels of a registry, or set them up. New channels begin with what was chosen before.

    Example: tfaot-pkg registry channels /srv/models --set nightly,candidate,stable --nights candidate=2
    """
    from tfaot_pkg.registry import promotion

    if not (names or default or nights or canary):
        found = session.open_registry().channels
        return Result(document={"channels": found}, text=_channels_text(found) if found else "no channels")
    opened = session.writable_registry()
    wanted = _wanted(opened.channels, names, default, nights or (), canary or ())
    promotion.set_channels(opened, wanted, by=by)
    return Result(document={"channels": wanted}, text=_channels_text(wanted))


def _wanted(now: Channels | None, names: str, default: str, nights: Iterable[str], canaries: Iterable[str]) -> Channels:
    """What there is, with what was asked for."""
    from tfaot_pkg.registry.channels import DEFAULT_NAMES, Channels

    rules = now.promotion if now else {}
    listed = tuple(name.strip() for name in names.split(",")) if names else now.names if now else DEFAULT_NAMES
    counts = {name: rule.nights for name, rule in rules.items()} | _nights(nights)
    ruled = {name: number for name, number in counts.items() if number}
    birds = {name: list(rule.canaries) for name, rule in rules.items() if rule.canaries and name in ruled}
    for word in canaries:
        name, _, package = word.partition("=")
        if not package:
            raise typer.BadParameter(f"--canary {word}: write CHANNEL=PACKAGE")
        birds.setdefault(name, []).append(package)
    kept = now.default if now and not names else ""
    return Channels.of(
        listed, default or kept, ruled, {name: tuple(dict.fromkeys(them)) for name, them in birds.items()}
    )


def _nights(words: Iterable[str]) -> dict[str, int]:
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if not number.isascii() or not number.isdigit():
            raise typer.BadParameter(f"--nights {word}: write CHANNEL=N")
        found[name] = int(number)
    return found


def _channels_text(found: Channels) -> str:
    lines = []
    for name in found.names:
        rule = found.promotion.get(name)
        parts = ["everything that is published"] if name == found.first else []
        if rule:
            parts.append(f"after {rule.nights} nights in {found.before(name)}")
            parts += [f"canaries: {', '.join(rule.canaries)}"] if rule.canaries else []
        elif name != found.first:
            parts.append("by tfaot-pkg promote")
        lines.append(f"{name}{' (default)' if name == found.default else ''}: {'; '.join(parts)}")
    return "\n".join(lines)


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise typer.BadParameter("say why with --reason: users and your colleagues will ask")


def _nothing_text(opened: WritableRegistry, packages: Iterable[str], channel: str) -> str:
    """Why nothing was promoted: what the channel has already."""
    from tfaot_pkg.registry.promotion import require_channels
    from tfaot_pkg.registry.reader import Requirement

    channels = require_channels(opened)
    chosen = channels.require(channel, opened.location)
    names = dict.fromkeys(Requirement.parse(text).package for text in packages)
    if chosen == channels.first:
        return f"{chosen} has everything that is published"
    what = f"{channels.before(chosen)} has nothing newer to promote"
    return "\n".join(f"{name}: {_standing_text(opened, name, chosen)}; {what}" for name in names) or what


def _standing_text(opened: WritableRegistry, package: str, channel: str) -> str:
    """What `channel` has of `package` now."""
    return next(str(one) for one in opened.channels_of(package) if one.channel == channel)


def _update_pages(session: Session, opened: WritableRegistry, names: Iterable[str]) -> None:
    from tfaot_pkg.catalogue.render import update_or_note

    for name in dict.fromkeys(names):
        update_or_note(opened, name, session.progress)
