"""`comity id token`: VCP/I tokens that vouch for somebody in this node's name.

A token is a credential: it is printed when it is issued and never again; all else shows the beginning of its
id. What is revoked is on the signed list of the data folder, and on the audit record.
"""

from typing import Annotated, Final

import typer

from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, KeyOptions, settings_of
from comity.wire.errors import ConfigError

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
    from comity.vcp.issuing import issue_token

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
    from comity.vcp.issuing import verify_token

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
    from comity.vcp.issuing import revoke_token

    settings = settings_of(home).settings
    revoke_token(settings, token, subject, reason, home.passphrase_file, as_json=as_json)
