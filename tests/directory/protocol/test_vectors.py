"""The recorded numbers of the reference. They hold under its own rules, and to twelve digits: the last bit
of a double depends on an order of additions that the contract does not fix. Numbers of what no node has (stakes, attested
births, niches, labels) are left out.
"""

import math

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    PairHistory,
    Reputation,
    Review,
    admit_review,
    apply_review,
    mean_score,
    ucb,
    update,
)
from comity.testing.vectors import format_runner, known_keys

SECTIONS = (
    "prior",
    "updates",
    "aggregator",
    "ucb",
)
LEFT_OUT = ("call_score", "initial_prior", "exploration_boost", "niche_bonus", "portability")


def reputation_cases(content):
    """The file is shared: the other sections are named and left to the tests that know them.

    One case for each recorded number; those that build on the updates carry them along.
    """
    yield from ((name, None) for name in content if name not in ("about", "reputation"))
    recorded = content.get("reputation", {})
    unknown = [name for name in recorded if name not in (*SECTIONS, *LEFT_OUT)]
    if recorded:
        yield "reputation", {"prior": recorded.get("prior", {}), "unknown": unknown}
    for section in ("updates", "aggregator"):
        if section in recorded:
            yield f"reputation-{section}", {section: recorded[section]}
    for section in SECTIONS[3:]:
        for index, number in enumerate(recorded.get(section, ())):
            case = {section: number, "history": recorded.get("updates", [])}
            yield f"reputation-{section}-{index}", case


def same(ours, recorded):
    """Compare numbers, and objects of numbers, as deep as they go."""
    if isinstance(recorded, dict):
        assert ours.keys() == recorded.keys()
        for key, number in recorded.items():
            same(ours[key], number)
    else:
        assert math.isclose(ours, recorded, rel_tol=1e-12, abs_tol=1e-15)


def numbers(posterior):
    return {
        "alpha": posterior.alpha,
        "beta": posterior.beta,
        "n_eff": posterior.n_eff,
        "mean": posterior.mean,
        "variance": posterior.variance,
    }


def all_numbers(reputation):
    return {name: numbers(reputation.of(name)) for name in DIMENSIONS}


def after(updates):
    held = Reputation()
    for step in updates:
        known_keys(step, "dim", "signal", "weight", "now_ts", "after")
        held = update(held, step["dim"], step["signal"], step["weight"], now=step["now_ts"])
        same(numbers(held.of(step["dim"])), step["after"])
    return held


def state(case, recorded):
    return {"prior": Reputation(), "after_updates": after(case["history"])}[recorded["state"]]


@format_runner("envelope", "vectors", cases=reputation_cases, takes=lambda case: case is not None)
def test_vector_envelope_reputation_gives_the_recorded_numbers(case):
    known_keys(case, *SECTIONS, "history", "unknown")
    section = next(name for name in SECTIONS if name in case)
    JUDGES[section](case, case[section])


def judge_prior(case, recorded):
    assert not case["unknown"], f"no runner understands {case['unknown']} of reputation"
    ours = all_numbers(Reputation())
    same({name: ours[name] for name in recorded}, recorded)


def judge_updates(_case, recorded):
    after(recorded)


def judge_ucb(case, recorded):
    known_keys(recorded, "state", "weights", "n_global", "score")
    held = state(case, recorded)
    same(ucb(held, recorded["n_global"], recorded["weights"], "harmonic"), recorded["score"])


def judge_aggregator(_case, recorded):
    known_keys(recorded, "families", "reviews", "score_all_dims", "score_FLR", "score_unknown")
    families = recorded["families"]
    held: dict[int, Reputation] = {}
    pairs: dict[tuple[int, int], PairHistory] = {}
    for step in recorded["reviews"]:
        known_keys(step, "reviewer", "target", "dims", "source", "same_strength", "ts", "target_after")
        pair = step["reviewer"], step["target"]
        pairs[pair] = admit_review(pairs.get(pair, PairHistory()), step["ts"])
        review = Review(
            reviewer=str(pair[0]),
            target=str(pair[1]),
            signals=step["dims"],
            source=step["source"],
            same_strength=step["same_strength"],
            at=step["ts"],
        )
        held[pair[1]] = apply_review(
            held.get(pair[1], Reputation()),
            review,
            nth=pairs[pair].count,
            same_family=families[pair[0]] == families[pair[1]],
            reviewer=held.get(pair[0]),
        )
        same(all_numbers(held[pair[1]]), step["target_after"])
    judged = held[recorded["reviews"][-1]["target"]]
    same(mean_score(judged, DIMENSIONS), recorded["score_all_dims"])
    same(mean_score(judged, DIMENSIONS[:3]), recorded["score_FLR"])


JUDGES = {
    "prior": judge_prior,
    "updates": judge_updates,
    "ucb": judge_ucb,
    "aggregator": judge_aggregator,
}
