"""`comity id token`: VCP/I tokens that vouch for somebody in this node's name.

A token is a credential: it is printed when it is issued and never again; all else shows the beginning of its
id. What is revoked is on the signed list of the data folder, and on the audit record.
"""

from typing import Annotated, Final

import typer

from comity.cli.help import HelpfulCommand, new_app
from comity.cli.options import Config, Data, Json, PassphraseFile, settings_of
from comity.core.errors import ConfigError

app = new_app("Issue, verify or revoke VCP/I tokens, with which others say who they are.")

EXAMPLES: Final = """
comity id token issue alice  vouch for alice in the name of this node
comity id token verify @token.txt  is it good here?
comity id token revoke @token.txt  it no longer is
"""
KIND: Final = "user"
REASONS: Final = ("key_compromise", "content_unsafe", "superseded", "issuer_request")

Token = Annotated[
    str, typer.Argument(metavar="TOKEN|@FILE", help="The token, or the file that holds it; @- is stdin.")
]
SecretFile = Annotated[
    str | None,
    typer.Option(
        "--secret-file",
        metavar="FILE",
        help="For stamped tokens: a file of yours, closed to others, whose first line is the shared secret.",
    ),
]


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity id token issue alice  signed with the key of this node
    comity id token issue build-bot --kind agent --issuer acme  under a name that others know
    comity id token issue alice --secret-file secret.txt  stamped, good for a day
    """,
)
def issue(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whom the token stands for.")],
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help=f"What the subject is; {KIND} if not set.")
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option("--issuer", metavar="NAME", help="In whose name; the id of this node if not set."),
    ] = None,
    secret_file: SecretFile = None,
    data: Data = None,
    config: Config = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Issue a token, and print it.

    A signed token holds until it is revoked, for whoever knows the public key of this node. A stamped one
    holds for a day, for whoever shares the secret.
    """
    if secret_file is not None and kind is not None:
        raise ConfigError("a stamped token has no kind; leave out --kind, or --secret-file")
    from comity.cli.token_acts import issue_token

    settings = settings_of(data, config).settings
    issue_token(settings, subject, kind or KIND, issuer, secret_file, passphrase_file, as_json=as_json)


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity id token verify @token.txt  would this node accept it?
    comity id token verify @token.txt --key did:key:z6Mk…  issued by somebody else?
    comity id token verify @- --secret-file secret.txt --json  from standard input; for programs
    """,
)
def verify(
    token: Token,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY|@FILE",
            help="The issuer's public key: 64 hexadecimal digits, did:key, base64 or PEM. Else those that this "
            "node knows: its own, and vcp.issuers.",
        ),
    ] = None,
    secret_file: SecretFile = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check a token: its form, its proof, its time, and that it is not revoked on this node.

    Exit code 1 means that it is not good; why is said.
    """
    if key is not None and secret_file is not None:
        raise ConfigError("--key is for signed tokens and --secret-file for stamped ones; give one of them")
    from comity.cli.token_acts import verify_token

    verify_token(settings_of(data, config).settings, token, key, secret_file, as_json=as_json)


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity id token revoke @token.txt  this one token
    comity id token revoke --subject acme:alice --reason key_compromise  every token of a subject
    """,
)
def revoke(
    token: Annotated[
        str | None, typer.Argument(metavar="[TOKEN|@FILE]", help="The token, or its file; @- is stdin.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject", metavar="ISSUER:SUBJECT", help="Instead of TOKEN: all tokens of a subject."
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="REASON", help=f"One of {', '.join(REASONS)}.")
    ] = REASONS[-1],
    data: Data = None,
    config: Config = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Revoke a token, or all tokens of a subject, for good.

    It goes on the signed list revocations.json in the data folder: this node refuses it from then on, and
    others do once you publish the list to them.
    """
    if (token is None) == (subject is None):
        raise ConfigError("give either a TOKEN or --subject ISSUER:SUBJECT")
    from comity.cli.token_acts import revoke_token

    settings = settings_of(data, config).settings
    revoke_token(settings, token, subject, reason, passphrase_file, as_json=as_json)
