"""`comity hello`: negotiate with a VCP server and show the result; nothing else is sent.

It sends one hello. If the server is busy, it prints how long to wait and does not retry. The answer of a server is
stored in the data folder, so that the next hello can warn if the server offers less.
"""

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec import UNSET

from comity.directory.finding import is_address, with_scheme
from comity.identity.secrets import TOKEN_FILE
from comity.identity.secrets import read_token as read_own_token
from comity.runtime.settings import Settings
from comity.store.claim import running_node
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, KeyOptions, settings_of
from comity.terminal.output import (
    FAILED,
    Cell,
    note,
    one_line,
    paint,
    print_fields,
    print_json,
    print_line,
    print_table,
    say,
    waiting,
)
from comity.vcp.client import MIN_VERSION, NOT_REMEMBERED, VERSION, VcpClient
from comity.vcp.client_session import VcpRefusedError, VcpSession
from comity.vcp.client_targets import McpTarget, read_target
from comity.vcp.issuing import issue_token, read_credential, revoke_token, verify_token
from comity.vcp.protocol import agreement
from comity.vcp.protocol.built_in import BUILT_IN
from comity.vcp.protocol.messages import VcpError
from comity.vcp.tool_handlers import parse_csm1
from comity.wire.errors import ConfigError, InvalidError, MalformedError, NoAnswerError, TargetRefusedError

# `comity csm1`


csm1_app = HelpfulApp(
    "Explain a CSM-1 constitution code: the short form in which VCP names the rules for a model."
)


@csm1_app.add("""
    comity csm1 parse N5+E+F  show persona, adherence and scopes
    comity csm1 parse N5+E+F:ELEM@1.2.0 --json  print JSON
""")
def parse(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code, such as N5+E+F.")],
    as_json: Json = False,
) -> None:
    """Show what a code says: persona, adherence, scopes, namespace and version.

    If the code is not valid, the command prints the reason, and the exit code is 1.
    """
    code_fields = parse_csm1(code).structured
    if as_json:
        print_json(code_fields)
        if not code_fields["valid"]:
            raise typer.Exit(1)
        return
    if not code_fields["valid"]:
        raise InvalidError(one_line(code_fields["error"]))
    scopes = zip(
        code_fields["scope_codes"], code_fields["scopes"], code_fields["scope_descriptions"], strict=True
    )
    print_fields(
        (
            (
                "persona",
                f"{code_fields['persona_code']} {code_fields['persona_name']}: {code_fields['persona_description']}",
            ),
            ("adherence", f"{code_fields['adherence']} {code_fields['adherence_name']}"),
            *(("scope", f"{letter} {name.lower()}: {meaning}") for letter, name, meaning in scopes),
            ("namespace", code_fields["namespace"] or "none"),
            ("version", code_fields["version"] or "none"),
            ("canonical", code_fields["canonical"]),
            *(("warning", warning) for warning in code_fields["warnings"]),
        )
    )


hello_app = HelpfulApp()

SECONDS: Final = 15.0
CLIENT_ID: Final = "comity hello"


@hello_app.add("""
    comity hello http://127.0.0.1:8420  negotiate with the node on this machine
    comity hello wss://server.example/vcp --extensions VCP-X-Personal,VCP-X-Torch  request these two extensions
    comity hello tcp://127.0.0.1:8421 --extensions ""  over TCP, without extensions
    comity hello https://server.example --identity @token.txt --json  with an identity; print JSON
    comity hello http://127.0.0.1:8420/mcp  negotiate inside the initialize request of an MCP server
    comity hello "mcp:comity mcp"  the same with an MCP server that this command starts and stops
""")
def hello(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The URL of a VCP server (ws://, wss://, tcp:// or tcps://), of a node (http:// or https://), or of an MCP "
            "server (it ends in /mcp). For an MCP server on stdio: mcp: and the command that starts it.",
        ),
    ],
    extensions: Annotated[
        str | None,
        typer.Option(
            "--extensions",
            metavar="A,B",
            help="The extensions to request, in order of preference. Default: all five of VCP 3.1.",
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity",
            metavar="TOKEN|@FILE",
            help="A VCP/I token, or @ and the file that contains it; @- reads standard input.",
        ),
    ] = None,
    bearer: Annotated[
        str | None,
        typer.Option(
            "--bearer",
            metavar="TOKEN|@FILE",
            help="The access token for an MCP server, or @ and the file that contains it. Default: no token; for your own "
            "running node, its token.",
        ),
    ] = None,
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="The highest VCP version to accept.")
    ] = VERSION,
    min_version: Annotated[
        str, typer.Option("--min-version", metavar="VERSION", help="The lowest VCP version to accept.")
    ] = MIN_VERSION,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help=f"The timeout of the whole negotiation. Default: {SECONDS:g}.",
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Negotiate with a VCP server and show the version, extensions and core features of its answer.

    The command warns if the server offers less than at the last hello from this data folder. The exit code is 1 if the
    server refuses or cannot be reached.
    """
    asked = _extensions(extensions)
    token = None if identity is None else read_credential(identity)
    seconds = SECONDS if timeout is None else _seconds(timeout)
    settings = settings_of(home).settings
    given = None if bearer is None else read_credential(bearer)
    url = with_scheme(url) if is_address(url) else url
    try:
        target = read_target(url, bearer=given)
    except TargetRefusedError as refusal:
        raise ConfigError(f"{url[:80]!r}: {refusal.message}") from None
    if isinstance(target, McpTarget) and given is None:
        given = _own_token(settings, target)
    forgetful = _Forgetful()
    logging.getLogger("comity.vcp").addHandler(forgetful)  # its other messages are shown below
    try:
        shown = asyncio.run(
            _hello(
                settings,
                url,
                seconds,
                bearer=given,
                extensions=asked,
                identity=token,
                version=version,
                min_version=min_version,
            )
        )
    except InvalidError as fault:
        raise ConfigError(fault.message) from None
    except VcpRefusedError as refusal:
        error = refusal.error
        words = f"the server refuses: {one_line(error.message).rstrip('.')} ({one_line(error.code)}); {_remedy(error)}"
        say(error.code, words, as_json=as_json)
        raise typer.Exit(FAILED) from None
    if as_json:
        print_json({"server": target.url, **_as_json(shown), "remembered": not forgetful.reason})
        return
    _print(target.url, shown)
    if forgetful.reason:
        sys.stdout.flush()
        note(forgetful.reason)


async def _hello(settings: Settings, url: str, seconds: float, **asked: Any) -> VcpSession:
    try:
        async with asyncio.timeout(seconds):
            with waiting(f"saying hello to {url}"):
                async with VcpClient.connect(
                    url, data=settings.data, attempts=1, client_id=CLIENT_ID, **asked
                ) as session:
                    return session
    except TimeoutError:
        raise NoAnswerError(f"{url} did not answer within {seconds:g} seconds; try again later") from None


class _Forgetful(logging.Handler):
    """Keeps the reason why an answer could not be remembered."""

    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == NOT_REMEMBERED:
            self.reason = record.getMessage()


def _own_token(settings: Settings, target: McpTarget) -> str | None:
    """Return the token of the node that runs on the data folder, if this is that node."""
    node = running_node(settings.data)
    if node is None or not target.address.startswith(f"{node.url}/"):
        return None
    return read_own_token(settings.data / TOKEN_FILE)


def _extensions(written: str | None) -> Sequence[str]:
    if written is None:
        return tuple(BUILT_IN)
    return [name.strip() for name in written.split(",") if name.strip()]


def _seconds(written: str) -> float:
    try:
        seconds = float(written)
    except ValueError:
        seconds = 0.0
    if not 0.001 <= seconds <= 3600:
        raise ConfigError(f"--timeout must be a number from 0.001 to 3600, not {written[:60]!r}")
    return seconds


def _remedy(error: VcpError) -> str:
    match error.code:
        case "VERSION_UNSUPPORTED" if error.supported_versions is not UNSET and error.supported_versions:
            offered = [one_line(version) for version in error.supported_versions]
            return f"it speaks {', '.join(offered)}: try {_flags(offered)}"
        case "VERSION_UNSUPPORTED":
            return "request another --version"
        case "IDENTITY_REQUIRED":
            return "give a token with --identity, or leave out what needs one with --extensions"
        case "IDENTITY_INVALID":
            return "get a fresh token from its issuer and give it with --identity"
        case "EXTENSION_CONFLICT":
            return "leave one of the two out with --extensions"
    if error.retry_after is not None:
        return f"try again in {error.retry_after} s"
    return "try again later, or ask its operator"


def _flags(offered: Sequence[str]) -> str:
    """Return the options that ask for the newest offered version."""

    def known() -> Iterator[agreement.Version]:
        for written in offered:
            with contextlib.suppress(MalformedError):
                yield agreement.parse(written)

    newest = max(known(), default=None)
    return "another --version" if newest is None else f"--version {newest} --min-version {newest}"


def _as_json(session: VcpSession) -> dict[str, Any]:
    return {
        "version": session.version,
        "session_id": session.id,
        "server_id": session.server_id,
        "supported": session.extensions,
        "unsupported": session.unsupported,
        "capabilities": session.capabilities,
        "core_features": session.core_features,
        "warnings": session.warnings,
        "alerts": msgspec.to_builtins(session.alerts),
    }


def _print(url: str, session: VcpSession) -> None:
    fields = [("server", url if session.server_id is None else f"{url} ({one_line(session.server_id)})")]
    fields.append(("version", f"VCP {session.version}"))
    if session.id is not None:
        fields.append(("session", one_line(session.id)))
    if not (session.extensions or session.unsupported):
        fields.append(("extensions", "none requested"))
    print_fields(fields)
    rows = [
        row
        for name in session.extensions
        for row in _extension_rows(name, session.capabilities.get(name, {}))
    ]
    rows += [(name, ("not supported", "yellow"), "") for name in session.unsupported]
    if rows:
        print_line()
        print_table(("extension", "capability", "value"), rows)
    print_line()
    print_table(
        ("core feature", "in use"),
        [
            (one_line(name), ("yes", "green") if on else ("no", "yellow"))
            for name, on in session.core_features.items()
        ],
    )
    _print_remarks(session)


def _extension_rows(name: str, capabilities: dict[str, Any]) -> Iterator[Sequence[Cell]]:
    if not capabilities:
        yield (name, ("supported", "green"), "")
    for key, value in capabilities.items():
        yield (name, one_line(key), one_line(_value(value)))
        name = ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(member, str | int) for member in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_remarks(session: VcpSession) -> None:
    remarks = [(paint("warning:", "bold yellow"), warning) for warning in session.warnings]
    remarks += [(paint("downgrade:", "bold red"), alert.message) for alert in session.alerts]
    if remarks:
        print_line()
    for mark, text in remarks:
        print_line(f"{mark} {one_line(text)}")


# `comity id token`


app = HelpfulApp("Issue, verify or revoke VCP/I tokens. A token proves the identity of a user or agent.")

KIND: Final = "user"
REASONS: Final = ("key_compromise", "content_unsafe", "superseded", "issuer_request")

Token = Annotated[
    str,
    typer.Argument(
        metavar="TOKEN|@FILE", help="The token, or @ and the file that contains it; @- reads standard input."
    ),
]
SecretFile = Annotated[
    str | None,
    typer.Option(
        "--secret-file",
        metavar="FILE",
        help="For tokens with a shared secret: a file with the secret in its first line. Only you may have access to it.",
    ),
]


@app.add("""
    comity id token issue alice > token.txt  sign the token with the key of this node, and save it
    comity id token issue build-bot --kind agent --issuer acme  use another issuer name
    comity id token issue alice --secret-file secret.txt  use a shared secret; the token is valid for one day
""")
def issue(
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="The user or agent that the token identifies.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help=f"What the subject is: a word such as user or agent. Default: {KIND}.",
        ),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(
            "--issuer", metavar="NAME", help="The name of the issuer. Default: the id of this node."
        ),
    ] = None,
    secret_file: SecretFile = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Issue a token, and print it.

    A signed token is valid until it is revoked; everyone who knows the public key of this node can verify it. A token with
    a shared secret is valid for one day; everyone who knows the secret can verify it.
    """
    if secret_file is not None and kind is not None:
        raise ConfigError("a token with a shared secret has no kind; remove --kind or --secret-file")
    settings = settings_of(home).settings
    issue_token(settings, subject, kind or KIND, issuer, secret_file, home.passphrase_file, as_json=as_json)


@app.add("""
    comity id token verify @token.txt  check whether this node accepts the token
    comity id token verify @token.txt --key did:key:z6Mk…  check the token of another issuer
    comity id token verify @- --secret-file secret.txt --json  read the token from standard input; print JSON
""")
def verify(
    token: Token,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY|@FILE",
            help="The public key of the issuer: 64 hexadecimal digits, did:key, base64 or PEM. Default: the key of "
            "this node and the keys in the setting vcp.issuers.",
        ),
    ] = None,
    secret_file: SecretFile = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Check a token: its format, its signature, its validity period, and whether this node has revoked it.

    If the token is not valid, the command prints the reason and the exit code is 1.
    """
    if key is not None and secret_file is not None:
        raise ConfigError(
            "--key is for signed tokens and --secret-file for tokens with a shared secret; give one of them"
        )
    verify_token(settings_of(home).settings, token, key, secret_file, as_json=as_json)


@app.add("""
    comity id token revoke @token.txt  revoke one token
    comity id token revoke --subject acme:alice --reason key_compromise  revoke all tokens of a subject
""")
def revoke(
    token: Annotated[
        str | None,
        typer.Argument(metavar="TOKEN|@FILE", help="The token, or @ and its file; @- reads standard input."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            metavar="ISSUER:SUBJECT",
            help="Revoke all tokens of this subject, instead of one TOKEN.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="REASON", help=f"One of {', '.join(REASONS)}.")
    ] = REASONS[-1],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Revoke a token, or all tokens of a subject. This cannot be undone.

    The command adds the token to a signed list in the data folder: revocations.json, or revocations/NAME.json for tokens
    with the issuer name NAME. This node refuses the token from then on. Other servers refuse it when they have your list.
    """
    if (token is None) == (subject is None):
        raise ConfigError("give either a TOKEN or --subject ISSUER:SUBJECT")
    settings = settings_of(home).settings
    revoke_token(settings, token, subject, reason, home.passphrase_file, as_json=as_json)
