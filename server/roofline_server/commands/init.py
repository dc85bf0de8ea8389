"""`roofline-server init`: TLS and tokens, in one command."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer
from roofline.joining import (
    Access,
    CannotJoin,
    JoinToken,
    agent_file,
    client_file,
    load_servers,
    save_servers,
    who,
)
from roofline.places import state_home

from .. import access
from ..access.audit import Audit
from ..access.owner import open_private
from ..access.tokens import Tokens
from ..errors import Unavailable
from ..health import running
from .options import DataOption, data_of

HELP = (
    "Turn TLS and tokens on. Makes a certificate authority, a server certificate and a join token.\n\n"
    "From then on the server listens at all addresses, and accepts only agents and clients that have joined. "
    "This user's agent and client on this machine are joined already.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server init\n"
    "  roofline-server init head.cluster.example 10.0.0.1  more names\n"
    "  roofline-server init --mutual                       certificates, not tokens\n"
    "  roofline-server init --renew                        a new certificate, no new joins\n\n"
    "Exit codes: 0 ok, 3 existing files cannot be read, 6 the directory cannot be written."
)
DAYS = 30.0  # that the join token is good for
PORT = 7642


def init(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="more names and addresses of this machine")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="make a new certificate")] = False,
    mutual: Annotated[
        bool,
        typer.Option("--mutual", help="agents and clients that join get a certificate instead of a token"),
    ] = False,
    data: DataOption = None,
) -> None:
    from ..access import authority

    data = data or context.obj
    where = data_of(data)
    folder = where / access.FOLDER
    for name in names or ():
        if not authority.can_name(name):
            raise typer.BadParameter(
                f"{name!r} is neither the name of a host nor an address: give one without a port or a length "
                "of a network, a name with other letters than ASCII as it is in DNS (xn--...)",
                param_hint="NAMES",
            )
    has_authority = access.is_set_up(where)
    fresh = not (has_authority and (folder / access.CERTIFICATE).exists())
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not has_authority:
            authority.create(folder, names or ())
        elif fresh or renew or names:
            authority.renew(folder, names or ())
        turned = mutual and not access.is_mutual(folder)
        if turned:
            os.close(open_private(folder / access.MUTUAL, os.O_WRONLY))
    except OSError as error:
        raise Unavailable(f"cannot write {folder}: {error.strerror}; choose another --data") from None
    if renew and not (fresh or turned):
        print(f"a new certificate is in {folder}; a running server shows it from the next connection on")
        return
    tokens, audit = Tokens(folder), Audit(folder)
    if fresh or turned:
        audit.add("init", folder=str(folder), mutual=access.is_mutual(folder))
        _join_here(folder, tokens, _here(where))
    token, secret = tokens.new("agent", "for nodes to join", joins=True, days=DAYS)
    audit.add("token", token=token.id, role=token.role, joins=True)
    what = "certificates" if access.is_mutual(folder) else "tokens"
    print(f"TLS and {what} {'are on' if fresh or turned else 'were on already'} for {where}.\n")
    print("  start the server, at all addresses   roofline-server" + _option(data))
    print(f"  on every node, once ({DAYS:.0f} days)        roofline-agent join {address(where)} - <<< \\")
    print(f"                                         {join_token(folder, secret)}")
    print("  for users on other machines          roofline-server token new --role reader" + _option(data))
    if turned and not fresh:
        print("\nStart the server again; agents and clients that joined with a token must join again.")
    if fresh or turned:
        print(f"\nThe agent and the client of this user on this machine are let in, at {_here(where)}.")


def _option(data: Path | None) -> str:
    return f" --data {data}" if data else ""


def address(data: Path) -> str:
    """Where others reach the server of this directory, as far as this machine knows."""
    from ..listening import is_one_address

    if is_one_address(_listens(data)):
        return _here(data)  # of several networks the machine's name may be of another one
    name = socket.getfqdn()
    return f"{socket.gethostname() if name.startswith('localhost') else name}:{port(data)}"


def port(data: Path) -> int:
    """Port of the server that runs, else the one that the next will listen at."""
    text = _listens(data).rpartition(":")[2]
    return int(text) if text.isdecimal() and int(text) else PORT


def _listens(data: Path) -> str:
    """Where the server runs, else where the next will listen, as far as that is known."""
    if running.is_locked(data) and (found := running.read(data)):
        return found.address
    return os.environ.get("ROOFLINE_LISTEN", "")


def _here(data: Path) -> str:
    """Where this machine reaches it: at loopback, unless it listens at one other address alone."""
    from ..listening import is_one_address

    listen = _listens(data)
    own = listen.rpartition(":")[0] if is_one_address(listen) else "127.0.0.1"
    return f"{own}:{port(data)}"


def join_token(folder: Path, secret: str) -> JoinToken:
    from ..access import authority

    return JoinToken(authority.fingerprint(folder), secret, access.is_mutual(folder))


def _join_here(folder: Path, tokens: Tokens, here: str) -> None:
    """Let this user's agent and client in, which can read the keys anyway. here: HOST:PORT of the server."""
    certificate = (folder / access.AUTHORITY).read_text()
    state = os.environ.get("ROOFLINE_STATE") or state_home(os.environ) / "roofline" / "agent"
    agent = agent_file(Path(state))
    for role, file in (("agent", agent), ("admin", client_file(os.environ))):
        own = _own(folder, tokens, role, certificate)
        try:
            save_servers(file, load_servers(file).joined(here, own))
        except CannotJoin as error:
            raise Unavailable(str(error)) from None


def _own(folder: Path, tokens: Tokens, role: str, trusted: str) -> Access:
    """What this user is let in with. trusted: the authority's certificate."""
    from ..access import authority

    mutual = access.is_mutual(folder)
    token, secret = tokens.new(role, who(os.environ), certified=mutual)
    if not mutual:
        return Access(trusted, secret)
    made = authority.certify(folder, token)
    tokens.extend(token.id, made.ends)
    return Access(trusted, "", made.certificate, made.key, made.ends)
