"""`comity review`: say how good an agent is. It counts in the ranking of this data folder; published, others see it."""

import asyncio
import math
from typing import Annotated, Any

from comity.contacts.lookup import id_or_text
from comity.directory.finding import DirectoryAccess, find_card
from comity.directory.outcomes import CallOutcomes
from comity.directory.protocol.reputation import DIMENSIONS, after_own_review
from comity.directory.protocol.reviews import SignedReview
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.requests.caller import OWN_PROCESS
from comity.requests.record import Act
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, refuse_memory, writing
from comity.terminal.options import Directory, Json, KeyOptions, argument, option, settings_of
from comity.terminal.output import print_json, print_line
from comity.wire.errors import ConfigError, InvalidError

app = HelpfulApp()

_WORDS = {"good": 1.0, "bad": 0.0}


@app.add("""
    comity review http://127.0.0.1:8420 good  prefer this agent from now on
    comity review 31e30ef4…d13d bad  its answers are of no use: try others first
    comity review 31e30ef4…d13d 0.7 --honesty 0  a number from 0 to 1; another one for its honesty
    comity review 31e30ef4…d13d good --publish  publish the review in the directory, signed with your id
""")
def review(
    agent: Annotated[
        str, argument("AGENT", "The agent: a contact, an id, the URL of its node or card, or a card file.")
    ],
    rating: Annotated[str, argument("RATING", "good, bad, or a number from 0 (bad) to 1 (good).")],
    factual: Annotated[str | None, option("--factual", "N", "Are its facts right? 0 to 1.")] = None,
    logical: Annotated[str | None, option("--logical", "N", "Are its conclusions right? 0 to 1.")] = None,
    relevance: Annotated[
        str | None, option("--relevance", "N", "Does it answer what was asked? 0 to 1.")
    ] = None,
    honesty: Annotated[
        str | None, option("--honesty", "N", "Does it say what it does not know? 0 to 1.")
    ] = None,
    adoption: Annotated[str | None, option("--adoption", "N", "Is it reliable? 0 to 1.")] = None,
    publish: Annotated[
        bool, option("--publish", None, "Publish the review in the directory, where everybody can read it.")
    ] = False,
    directory: Directory = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Review an agent. RATING stands for all five questions that no option answers.

    The review changes which agents your calls by capability and your searches prefer. It stays in your data folder, and nobody
    else sees it, unless you publish it: then your id, the agent, the numbers and the time are public in the directory, where
    your own card must be published. You can review an agent three times in 24 hours.
    """
    given = {
        "factual": factual,
        "logical": logical,
        "relevance": relevance,
        "honesty": honesty,
        "adoption": adoption,
    }
    overall = _number("RATING", rating)
    signals = {
        name: overall if (text := given[name]) is None else _number(f"--{name}", text) for name in DIMENSIONS
    }
    settings = settings_of(home, **{"directory.url": directory}).settings
    refuse_memory(settings, "a review is stored")
    key = own_key(settings, home.passphrase_file)
    answer = asyncio.run(_review(settings, key, id_or_text(settings, agent), signals, publish=publish))
    if as_json:
        print_json(answer)
        return
    print_line(
        f"You reviewed {answer['agent'][:12]}: {', '.join(f'{name} {signals[name]:g}' for name in DIMENSIONS)}."
    )
    if answer["published"] is None:
        print_line("It counts for your own calls and searches. Nobody else sees it.")
    else:
        print_line(f"Everybody can read it in {answer['published']}.")


async def _review(
    settings: Settings, key: SigningKey, agent: str, signals: dict[str, float], *, publish: bool
) -> dict[str, Any]:
    clock, access = SystemClock(), DirectoryAccess(settings, key)
    async with writing(settings, key) as (store, record, _chain):
        outcomes = CallOutcomes(store, clock)
        target = await _known(agent, access, outcomes)
        if target == key.vacant_id:
            raise InvalidError("that is the identity of this data folder, and an agent cannot review itself")
        signed = SignedReview(
            reviewer=key.vacant_id.hex(),
            target=target.hex(),
            signals=signals,
            ts_ms=int(clock.now() * 1000),
        ).signed(key)
        act = Act(feature="directory", result="REVIEW_MADE", caller=OWN_PROCESS, about=target.hex()[:8])
        after_own_review(await outcomes.of(target.hex()), signed.review())  # refuse before anything is public
        if publish:
            await access.directory().review(signed)
        await outcomes.review(signed.review(), record, act)
    return {
        "agent": target.hex(),
        "reviewer": key.vacant_id.hex(),
        "signals": signals,
        "published": access.directory_url if publish else None,
    }


async def _known(agent: str, access: DirectoryAccess, outcomes: CallOutcomes) -> VacantId:
    """Return the id of an agent that was called from here, or that has a card."""
    named = id_of(agent)
    if named is not None and (await outcomes.of(named.hex())).events:
        return named
    card = await find_card(agent, access)
    if not card.verify():
        raise InvalidError(f"the card of {card.vacant_id.short()} is not signed by it; it is not used")
    return card.vacant_id


def _number(name: str, text: str) -> float:
    try:
        number = _WORDS[text] if text in _WORDS else float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ConfigError(f"{name} must be good, bad or a number from 0 to 1, not {text[:40]!r}")
    return number
