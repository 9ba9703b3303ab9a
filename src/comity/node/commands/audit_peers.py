"""`comity audit challenge`, `proof` and `export`: what the node can show of the records of others, and others of its own."""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec import Struct

from comity.directory.finding import DirectoryAccess
from comity.envelopes.part import PROOFS_FOLDER
from comity.envelopes.protocol.witness import check_rewriting, signed_challenge
from comity.envelopes.witness import PeerRecord, Witnesses, challenge_url, peers
from comity.http.client import HttpCarrier
from comity.identity.key_files import load_identity
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.runtime.opening import has_database, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditHead, timestamp
from comity.store.audit_checkpoint import checkpoint, verifier_key
from comity.store.audit_trail import HEADS, read_signed_head
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import writing
from comity.terminal.options import Json, KeyOptions, passphrase_for, settings_of
from comity.terminal.output import FAILED, Cell, print_json, print_line, print_table
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, InvalidError, NotFoundError

app = HelpfulApp("")

AT_ONCE: Final = 8
SECONDS: Final = 10.0
ANSWER_LIMIT: Final = 65_536
PROOF_LIMIT: Final = 1_048_576

_WORDS: Final = {
    "continued": "sound",
    "same": "sound",
    "first": "sound",
    "restored": "restored",
    "unproven": "NOT PROVEN",
    "rewritten": "REWRITTEN",
}
_COLOURS: Final = {"sound": "green", "restored": "yellow", "NOT PROVEN": "bold red", "REWRITTEN": "bold red"}


class Challenged(Struct, frozen=True, kw_only=True):
    """`entries` of the peer's record were seen at `seen`, the first at `since`. `proof` is a file about a rewritten record."""

    agent: str
    verdict: str
    detail: str
    entries: int
    seen: str
    since: str
    endpoint: str
    proof: str | None = None


@app.add("""
    comity audit challenge  ask every agent that this node has a head of
    comity audit challenge 3b6a27bc…  ask one, by the beginning of its id
    comity audit challenge --json  print JSON; the exit code is 1 if a record was rewritten or is not proven
""")
def challenge(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="The id of an agent, or its beginning. Default: all."),
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Ask other agents to prove that their audit record still contains what they signed before. The node may be running."""
    settings, key = _settings_and_key(home)
    results = asyncio.run(_challenge(settings, key, (agent or "").lower()))
    if agent and not results:
        raise NotFoundError(f"no head of an agent {agent!r} is kept; `comity audit challenge` lists all")
    if as_json:
        print_json({"agents": [msgspec.to_builtins(each) for each in results]})
    elif not results:
        print_line("No head of another record yet. Heads come with signed calls between nodes.")
    else:
        _print(results)
    if any(each.verdict in ("REWRITTEN", "NOT PROVEN") for each in results):
        raise typer.Exit(FAILED)


@app.add("""
    comity audit proof proofs/rewritten-3b6a….json  check a file that says that a record was rewritten
""")
def proof(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file from the folder `proofs`, of whatever node.")
    ],
    as_json: Json = False,
) -> None:
    """Check a proof that the owner of an audit record rewrote it. The signatures in the file are enough: no node is needed."""
    path = Path(file)
    try:
        if path.stat().st_size > PROOF_LIMIT:
            raise InvalidError(f"{file} is larger than {PROOF_LIMIT:,} bytes; no proof is")
        value = strict_json.loads(path.read_bytes(), unique_keys=True)
    except OSError as reason:
        raise NotFoundError(f"{file} cannot be read: {reason.strerror}") from None
    sentence = check_rewriting(value).sentence
    if as_json:
        print_json({"proven": True, "agent": value["peer"], "found": value["found"], "detail": sentence})
    else:
        print_line(f"Proven: {value['peer']} rewrote its audit record: {sentence}.")


@app.add("""
    comity audit export --checkpoint  print the head of the record as a signed note
    comity audit export --checkpoint --json  with the key that checks it
""")
def export(
    as_checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="As a checkpoint of C2SP (tlog-checkpoint).")
    ] = False,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Print the size and root of this node's audit record, signed, for witnesses and monitors of transparency logs."""
    if not as_checkpoint:
        raise ConfigError("name the form: --checkpoint")
    settings, key = _settings_and_key(home)
    head = asyncio.run(_own_head(settings))
    note = checkpoint(head, key)
    if as_json:
        print_json({"checkpoint": note, "verifier_key": verifier_key(head, key.vacant_id)})
    else:
        print_line(note.removesuffix("\n"))


def _settings_and_key(home: KeyOptions) -> tuple[Settings, SigningKey]:
    settings = settings_of(home).settings
    if settings.store.engine == "memory":
        raise ConfigError("store.engine memory keeps no record on disk; use sqlite to have one")
    if not has_database(settings):
        raise NotFoundError(f"there is no database at {settings.database}; start a node first: `comity up`")
    return settings, load_identity(
        settings.data, passphrase=passphrase_for(settings.data, home.passphrase_file)
    )


async def _own_head(settings: Settings) -> AuditHead:
    async with reading(settings, SystemClock(), check=False) as store:
        held = await store.get(HEADS, "main")
    signed = read_signed_head(held.value if held else None)
    if signed is None or not signed.head.size:
        raise NotFoundError("the audit record has no tree yet; a running node builds it within a minute")
    return signed.head


async def _challenge(settings: Settings, key: SigningKey, beginning: str) -> list[Challenged]:
    access, clock, limit = DirectoryAccess(settings, key), SystemClock(), asyncio.Semaphore(AT_ONCE)
    folder = settings.data / PROOFS_FOLDER
    wanted = id_of(beginning) if beginning.startswith("did:") else None
    async with writing(settings, key) as (store, record, _chain):
        witnesses = Witnesses(store, key, clock, record, proofs=folder)

        async def ask(peer: VacantId, known: PeerRecord) -> Challenged:
            async with limit:
                verdict, detail = await _ask(witnesses, key, peer, known, access.http, clock.now())
            return _result(peer, await witnesses.read(peer), verdict, detail, folder)

        chosen = [
            each
            async for each in peers(store)
            if (each[0] == wanted if wanted else each[0].hex().startswith(beginning))
        ]
        return list(await asyncio.gather(*(ask(*each) for each in chosen)))


async def _ask(
    witnesses: Witnesses, key: SigningKey, peer: VacantId, known: PeerRecord, http: HttpCarrier, now: float
) -> tuple[str, str]:
    """Return the verdict on one peer, and a sentence."""
    if not known.endpoint or known.last is None:
        return (
            "no address",
            "no address of it is known; its record is checked when it calls again, in a room, or in a vote",
        )
    nonce = secrets.token_hex(16)
    asked = signed_challenge(key, peer, known.last.place, now=now, nonce=nonce)
    try:
        async with asyncio.timeout(SECONDS):
            answer = await http.request("POST", challenge_url(known.endpoint), msgspec.to_builtins(asked))
        if answer.status == 429:
            return "no answer", "it was asked too often; try again in a moment"
        if answer.status != 200 or len(answer.body) > ANSWER_LIMIT:
            return "no answer", f"{known.endpoint} answers no challenges (status {answer.status})"
        body: Any = strict_json.loads(answer.body, unique_keys=True)
        given = body.get("witness") if isinstance(body, dict) else None
        judgement = await witnesses.take_answer(peer, given, nonce)
    except TimeoutError:
        return "unreachable", f"no answer within {SECONDS:g} seconds"
    except InvalidError as fault:
        return "NOT PROVEN", fault.message
    except ComityError as reason:
        return "unreachable", reason.message
    return _WORDS.get(judgement.verdict, "NOT PROVEN"), judgement.sentence


def _result(peer: VacantId, record: PeerRecord, verdict: str, detail: str, folder: Path) -> Challenged:
    found = folder / f"rewritten-{peer.hex()}-1.json"
    if record.rewritten:
        verdict = "REWRITTEN"
    return Challenged(
        agent=peer.hex(),
        verdict=verdict,
        detail=detail,
        entries=record.last.place.size if record.last else 0,
        seen=timestamp(record.at),
        since=timestamp(record.since),
        endpoint=record.endpoint,
        proof=str(found) if record.rewritten and found.exists() else None,
    )


def _print(results: list[Challenged]) -> None:
    rows: list[list[Cell]] = [
        [
            each.agent[:16],
            (each.verdict, _COLOURS.get(each.verdict, "dim")),
            f"{each.entries:,}",
            each.since[:10],
            each.detail,
        ]
        for each in results
    ]
    print_table(("agent", "record", "entries", "since", "what it showed"), rows)
    for each in results:
        if each.proof is not None:
            print_line(f"Proof: {each.proof}; `comity audit proof FILE` checks it, anywhere.")
