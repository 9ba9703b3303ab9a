"""Recount the record of a deliberation: a stranger's program, written from the reference alone.

It has nothing of comity, only PyNaCl and the standard library. `python record_stranger.py FILE` says what was decided,
or names the first entry that is bad; its exit code is 0 or 1.
"""

import base64
import hashlib
import json
import sys
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

SIGNED = ("delib_id", "number", "prev", "actor", "on_behalf", "action", "time")
NEXT = {
    "draft": {"deliberation"},
    "deliberation": {"convergence"},
    "convergence": {"ratification"},
    "ratification": {"active", "deliberation"},
}
PHASE_OF = {
    "consensus.act": {"deliberation"},
    "consensus.ballot": {"convergence"},
    "consensus.vote": {"ratification"},
    "consensus.add": {"draft", "deliberation"},
    "consensus.welfare": {"deliberation", "convergence"},
}


class BadEntryError(Exception):
    pass


def need(holds, reason):
    if not holds:
        raise BadEntryError(reason)


def canonical(value):
    """RFC 8785, for objects with ASCII keys and no fractions."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_signature(key, message, signature, who):
    try:
        raw = base64.urlsafe_b64decode(signature + "==")
        VerifyKey(bytes.fromhex(key)).verify(message, raw)
    except (BadSignatureError, ValueError, TypeError):
        raise BadEntryError(f"the signature of the {who} does not hold") from None
    return raw


def schulze(candidates, ballots):
    """The winner. A ballot is a number of copies and ranks by candidate; a tie goes to whoever came first."""
    beats = {
        (a, b): sum(n for n, rank in ballots if rank[a] < rank[b]) for a in candidates for b in candidates
    }
    path = {pair: votes if votes > beats[pair[::-1]] else 0 for pair, votes in beats.items()}
    for k in candidates:
        for i in candidates:
            for j in candidates:
                if len({i, j, k}) == 3:
                    path[i, j] = max(path[i, j], min(path[i, k], path[k, j]))
    wins = {a: sum(path[a, b] > path[b, a] for b in candidates) for a in candidates}
    return max(candidates, key=lambda one: wins[one])


def ranks(ranking, tied, candidates):
    groups = [one if isinstance(one, list) else [one] for one in ranking]
    for group in tied:
        together = [found for found in groups if set(found) & set(group)]
        place = groups.index(together[0])
        groups = [found for found in groups if found not in together]
        groups.insert(place, [name for found in together for name in found])
    place = {name: at for at, group in enumerate(groups) for name in group}
    return {name: place.get(name, len(groups)) for name in candidates}


class Recount:
    def __init__(self):
        self.phase = "draft"
        self.parties, self.clauses, self.votes = {}, {}, {}
        self.number, self.last = 0, None
        self.rules, self.deadline, self.acted_on, self.returned = 1, None, {}, set()

    def follow(self, entry):
        need(entry["number"] == self.number + 1, "its number does not follow")
        need(entry["prev"] == self.last, "it does not continue the entry before")
        message = b"comity-delib-v1\n" + canonical({name: entry[name] for name in SIGNED})
        raw = check_signature(entry["actor"], message, entry["signature"], "actor")
        hashed = hashlib.sha256(message + raw).hexdigest()
        op, args = entry["action"]["op"], entry["action"]["args"]
        if self.number == 0:
            self.open(entry, op, args)
        elif op == "consensus.close":
            self.close(entry, args["phase"], time_of(entry))
        else:
            self.act(entry, op, args)
        stored = {"delib_id": entry["delib_id"], "number": entry["number"], "hash": hashed}
        message = b"comity-keep-v1\n" + canonical(stored)
        check_signature(self.host, message, entry["keeper_signature"], "keeper")
        need(entry["delib_id"] == self.id, "it is of another deliberation")
        self.number, self.last = entry["number"], hashed

    def open(self, entry, op, args):
        need(op == "consensus.open", "the first entry opens")
        self.id, self.host, self.author = (
            entry["delib_id"],
            args["keeper"],
            entry["on_behalf"] or entry["actor"],
        )
        self.quorum = Fraction(str(args.get("quorum", "1/2")))
        self.threshold = Fraction(str(args.get("ratification", "2/3")))
        self.add({"id": self.author, "role": "author"}, entry["on_behalf"] and entry["actor"])
        for one in args["stakeholders"]:
            self.add(one, one.get("node"))
        for number, one in enumerate(args["clauses"], 1):
            text, id_ = (one, None) if isinstance(one, str) else (one["text"], one.get("id"))
            clause = {"variants": [(self.author, text)], "said": {}, "ballots": {}}
            self.clauses[id_ or f"c{number}"] = clause
        self.rules, self.question = args.get("rules", 1), args.get("form") == "question"
        self.seconds = args.get("phase_seconds") or 7 * 86_400
        self.began = time_of(entry)
        if self.rules == 2:
            need(min(self.quorum, self.threshold) >= Fraction(1, 2), "a minority would decide")
        if self.question:
            (clause,) = self.clauses.values()
            clause["variants"].append((self.author, "no"))
            self.enter("ratification", self.began)

    def enter(self, phase, time):
        """By rules 2 a phase has a deadline, and in the beginning nobody has acted."""
        self.began = max(self.began, time)
        self.phase, self.acted_on, self.deadline = phase, {}, None
        if self.rules == 2 and phase not in {"active", "closed"}:
            self.deadline = self.began + self.seconds

    def eligible(self):
        return [name for name, one in self.parties.items() if one["role"] != "observer" and self.copies(name)]

    def missing(self):
        if self.phase == "ratification":
            return [name for name in self.eligible() if name not in self.votes]
        due = {
            id_
            for id_, clause in self.clauses.items()
            if self.phase == "deliberation" or len(clause["variants"]) > 1
        }
        return [name for name in self.eligible() if due - self.acted_on.get(name, set())]

    def end(self, time):
        accepting = sum(self.votes.get(name) == "accept" for name in self.eligible())
        share = Fraction(accepting, len(self.eligible()))
        self.enter("active" if share > Fraction(1, 2) and share >= self.threshold else "closed", time)

    def close(self, entry, phase, time):
        need(entry["actor"] == self.host and entry["on_behalf"] is None, "only the host closes")
        need(self.phase == phase and self.deadline and time >= self.deadline, "it is not the time to close")
        acted = self.votes if phase == "ratification" else self.acted_on
        share = Fraction(sum(name in acted for name in self.eligible()), len(self.eligible()))
        if self.missing() and share < self.quorum:
            self.enter("closed", time)
        elif phase == "ratification":
            self.end(time)
        else:
            self.enter("convergence" if phase == "deliberation" else "ratification", time)

    def add(self, one, node):
        is_key = len(one["id"]) == 64 and not set(one["id"]) - set("0123456789abcdef")
        node = None if is_key else node or self.host
        self.parties[one["id"]] = {
            "role": one.get("role", "participant"),
            "acted": False,
            "node": node,
            **one,
        }

    def act(self, entry, op, args):
        who = entry["on_behalf"] or entry["actor"]
        party = self.parties.get(who)
        need(party is not None, "its actor takes no part")
        need(party["node"] == (entry["on_behalf"] and entry["actor"]), "it is signed by another key")
        need(
            op == "consensus.advance" or self.phase in PHASE_OF.get(op, ()),
            f"it does not belong into {self.phase}",
        )
        if op in {"consensus.act", "consensus.ballot", "consensus.vote"} and self.deadline is not None:
            need(time_of(entry) <= self.deadline, "it was signed after the deadline")
        if op == "consensus.advance":
            self.advance(who, party, args["to"], time_of(entry))
        elif op == "consensus.add":
            need(who == self.author, "only the author adds")
            self.add(args["stakeholder"], args["stakeholder"].get("node"))
        elif op != "consensus.welfare":
            need(party["role"] != "observer", "an observer only reads")
            self.say(who, party, op, args)
            if self.rules == 2 and op == "consensus.vote" and not self.missing():
                self.end(time_of(entry))

    def say(self, who, party, op, args):
        if op == "consensus.vote":
            self.votes[who] = args["vote"]
            return
        id_ = args.get("clause_id") or next(iter(self.clauses))
        clause = self.clauses[id_]
        self.acted_on.setdefault(who, set()).add(id_)
        if op == "consensus.ballot":
            clause["ballots"][who] = (args["ranking"], args.get("tied_groups", []))
            return
        party["acted"] = True
        clause["said"][who] = args["action"]
        if args["action"] == "amend":
            clause["variants"].append((who, args["text"]))

    def advance(self, who, party, to, time):
        need(to in NEXT.get(self.phase, ()), f"{to} does not follow on {self.phase}")
        entitled = [one for one in self.parties.values() if one["role"] != "observer"]
        if to == "deliberation" and self.phase == "draft":
            need(who == self.author, "only the author begins")
        if self.rules == 2:
            back = self.phase == "ratification" and to == "deliberation"
            need(back or not self.missing() or self.phase == "draft", "a party is missing")
            need(to != "active" and not (back and who in self.returned), "this is not possible")
            self.returned |= {who} if back else set()
        elif to == "convergence":
            acted = Fraction(sum(one["acted"] for one in entitled), len(entitled))
            need(acted >= self.quorum, "there is no quorum")
        elif to == "active":
            counted = [vote for name, vote in self.votes.items() if self.copies(name)]
            accepted = Fraction(counted.count("accept"), len(counted) or 1)
            need(counted and accepted >= self.threshold, "too few accept")
        if to == "deliberation" and self.phase == "ratification":
            self.votes = {}
            for clause in self.clauses.values():
                clause["ballots"] = {}
        self.enter(to, time)

    def copies(self, name):
        party = self.parties[name]
        if party["role"] != "ai_representative":
            return 10
        return int(Fraction(str(party.get("fidelity") or 0)) * 10 + Fraction(1, 2))

    def winner(self, clause):
        if self.question:
            votes = [self.votes.get(name) for name in self.eligible()]
            return "v0" if votes.count("accept") >= votes.count("reject") else "v1"
        names = [f"v{number}" for number in range(len(clause["variants"]))]
        cast = {}
        for who, said in clause["said"].items():
            own = [f"v{at}" for at, (author, _) in enumerate(clause["variants"]) if at and author == who]
            if said in {"endorse", "object"}:
                cast[who] = (names, [])
            elif said == "amend":
                cast[who] = (own + [one for one in names if one not in own], [])
        cast |= clause["ballots"]
        ballots = [(self.copies(who), ranks(*ballot, names)) for who, ballot in cast.items()]
        return schulze(names, ballots)


def time_of(entry):
    return datetime.fromisoformat(entry["time"]).timestamp()


def recount(record):
    """What was decided: the text of each clause, by its id."""
    counted = Recount()
    for number, entry in enumerate(record["entries"], 1):
        try:
            counted.follow(entry)
        except (BadEntryError, KeyError, IndexError, TypeError) as fault:
            raise BadEntryError(f"entry {number}: {fault}") from None
    need(
        record["format"] == "comity-deliberation-1" and record["delib_id"] == counted.id,
        "this is another record",
    )
    decided = {}
    for id_, clause in counted.clauses.items():
        winner = counted.winner(clause)
        decided[id_] = clause["variants"][int(winner[1:])][1]
    if counted.phase == "active":
        told = record["provenance"]
        need(
            {one["clause_id"]: one["text"] for one in told["clause_records"]} == decided,
            "other winners are told",
        )
        need(
            {who: cast["vote"] for who, cast in told["votes"].items()} == counted.votes,
            "other votes are told",
        )
    return counted.phase, counted.number, decided


if __name__ == "__main__":
    try:
        phase, entries, decided = recount(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except BadEntryError as fault:
        sys.exit(f"bad: {fault}")
    print(json.dumps({"phase": phase, "entries": entries, "decided": decided}))
