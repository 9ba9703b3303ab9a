"""`comity search`: who offers what, in a directory. Only cards whose signature holds are shown."""

import asyncio
import shlex
from typing import Annotated

from comity.directory.cards import DEFAULT_LIMIT, LIMIT, HaloMatch
from comity.directory.finding import DirectoryAccess
from comity.envelopes.protocol.card import serialize
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Directory, HomeOptions, Json, argument, option, settings_of, whole_number
from comity.terminal.output import one_line, print_json, print_line, print_table

app = HelpfulApp()


@app.add("""
    comity search translate  find agents that offer to translate
    comity search "" --limit 100  list all agents
    comity search translate --family gpt --json  only one model family; print JSON with full ids
""")
def search(
    query: Annotated[
        str, argument("QUERY", "Words, or beginnings of words, of the offer. All of them must occur.")
    ],
    family: Annotated[
        str | None, option("--family", "FAMILY", "Show only agents that use this model family.")
    ] = None,
    limit: Annotated[
        str,
        option(
            "--limit",
            "COUNT",
            f"The largest number of results, up to {LIMIT}. Default: {DEFAULT_LIMIT}.",
            show_default=False,
        ),
    ] = str(DEFAULT_LIMIT),
    directory: Directory = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Search a directory for agents by what they offer. The best match comes first."""
    count = whole_number("--limit", limit, 1, LIMIT)
    settings = settings_of(home, **{"directory.url": directory}).settings
    access = DirectoryAccess(settings)
    where = access.directory_url
    matches = asyncio.run(access.directory().search(query, family=family, limit=count))
    if as_json:
        print_json(
            {"directory": where, "matches": [_as_json(rank, match) for rank, match in enumerate(matches, 1)]}
        )
        return
    if not matches:
        typed = {"--directory": directory, "--data": home.data, "--config": home.config}
        flags = "".join(f" {flag} {shlex.quote(value)}" for flag, value in typed.items() if value)
        if query.strip() or family:
            print_line(f'Nobody in {where} offers that. To see everybody: comity search ""{flags}')
        else:
            print_line(
                f"Nobody is in {where} yet. To publish your own agent there: comity card publish{flags}"
            )
        return
    scored = any(match.reviews for match in matches)
    titles = ("", "agent", "offers", "endpoint", *(["reviews"] if scored else []))
    rows = [_row(rank, match, scored=scored) for rank, match in enumerate(matches, 1)]
    print_table(titles, rows, unbroken="endpoint")


def _row(rank: int, match: HaloMatch, *, scored: bool) -> list[str | tuple[str, str]]:
    card = match.capability_card
    score = [f"{match.score:.2f} ({match.reviews})" if match.reviews else "none"] if scored else []
    return [
        (str(rank), "dim"),
        card.vacant_id.short(),
        one_line(card.capability_text),
        (one_line(card.endpoint or "none"), "cyan"),
        *score,
    ]


def _as_json(rank: int, match: HaloMatch) -> dict[str, object]:
    card = match.capability_card
    return {
        "rank": rank,
        "vacant_id": match.vacant_id,
        "capability_text": card.capability_text,
        "endpoint": card.endpoint,
        "score": match.score,
        "reviews": match.reviews,
        "base_model_family": match.base_model_family,
        "visibility": match.visibility.value,
        "capability_card_blob_hex": serialize(card).hex(),
    }
