"""Verify receipts of Comity without Comity: plain Python and PyNaCl. docs/reference/receipts.md has the format.

    python receipt_stranger.py receipt.json ...     exit code 0 good, 1 bad, 3 not verifiable

It checks signatures, hashes and order. It counts no votes: whether the acts of a vote lead to an agreement, and whether an
act was allowed, is for a program that knows the rules.
"""

import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from hashlib import blake2b, sha256

from nacl.exceptions import CryptoError
from nacl.exceptions import ValueError as KeyFault
from nacl.signing import VerifyKey

TOP = {"call": {"request", "reply"}, "message": {"messages"}, "vote": {"entries"}, "agreement": {"entries"}}
TOP["range"] = {"entries", "head", "signer"}
HEAD = {"at", "chain", "entry_hash", "position"}
VACANT = ["caller_signature", "from_vacant_id", "idempotency_key", "prev_envelope_hash", "sequence_no"]
VACANT += ["timestamp", "to_vacant_id"]
ACT = ["action", "actor", "delib_id", "keeper_signature", "number", "on_behalf", "prev", "signature", "time"]
ENTRY = "session_id_hash request_id_hash verification_result checks_passed failed_step duration_ms bundle_id_hash "
ENTRY += "content_hash issuer_hash bundle_version manifest_signature audit_level token_count content_preview created_at "
ENTRY += "chain_position previous_hash entry_hash"


class OpenError(Exception):
    """Nothing is wrong, and it cannot be verified."""


def need(holds, what):
    if not holds:
        raise ValueError(what)


def jcs(value):
    """RFC 8785. Numbers of a receipt are texts here, in a tuple: they have its form already."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{jcs(key)}:{jcs(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(jcs, value)) + "]"
    return value[0] if isinstance(value, tuple) else json.dumps(value, ensure_ascii=False)


def ascii_form(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("\x7f", "\\u007f").encode()


def whole(number):
    need(isinstance(number, tuple) and number[0].isdecimal(), "a number is not a whole one")
    return int(number[0])


def unhex(text):
    need(bytes.fromhex(text).hex() == text, "something is not in lower-case hex")
    return bytes.fromhex(text)


def base64url(text):
    raw = urlsafe_b64decode(text + "==")
    need(urlsafe_b64encode(raw).rstrip(b"=").decode() == text, "a signature is not base64url")
    return raw


def is_signed(key, message, signature):
    need(len(key) == 64 and len(signature) == 64, "no key, or no signature")
    try:
        return VerifyKey(unhex(key)).verify(message, signature) == message
    except (CryptoError, KeyFault, TypeError):
        return False


def envelope(message):
    """Check a signed message; return who, to whom, its number, the hash before it, its own hash, and its key."""
    about = message["metadata"]["urn:vacant:v1"]
    need(set(message) - {"selfEval"} == {"role", "parts", "contextId", "messageId", "metadata"}, "members")
    need(sorted(about) == VACANT and len(message["metadata"]) == 1, "members of metadata")
    need(all(part == {"type": "text", "text": part["text"]} for part in message["parts"]), "parts")
    need(message["role"] in ("ROLE_USER", "ROLE_AGENT", "ROLE_TOOL"), "a role that nobody has")
    moment, number = datetime.fromisoformat(about["timestamp"]).isoformat(), whole(about["sequence_no"])
    need(moment == about["timestamp"] and moment.endswith("+00:00"), "the time is not written in UTC")
    need(number and len(unhex(about["prev_envelope_hash"])) == 32, "no place in a chain")
    who, to, before = about["from_vacant_id"], about["to_vacant_id"], about["prev_envelope_hash"]
    signed = {
        "from": who,
        "to": to,
        "idem": about["idempotency_key"],
        "prev": before,
        "seq": number,
        "ts": moment,
    }
    payload = {name: message[name] for name in ("contextId", "messageId", "parts", "role")}
    judged = message.get("selfEval")  # a second dialect signs this member, also where there is none
    judged = judged and {name: float(share[0]) for name, share in judged.items()}
    for each in [{**payload, "selfEval": judged}] + ([payload] if judged is None else []):
        form = jcs({**signed, "payload": each}).encode()
        if is_signed(who, form, unhex(about["caller_signature"])):
            return who, to, number, before, blake2b(form, digest_size=32).hexdigest(), signed["idem"]
    raise ValueError("the signature of a message is not valid")


def call(receipt):
    caller, agent, _, _, request, _ = envelope(receipt["request"])
    who, to, _, _, _, key = envelope(receipt["reply"])
    need((who, to) == (agent, caller), "the reply is of or to somebody else")
    if not key.startswith("re:"):
        raise OpenError("the reply does not say which request it answers")
    need(key == f"re:{request}", "the reply answers another request")


def message(receipt):
    last = {}
    need(receipt["messages"], "there is no message")
    for each in receipt["messages"]:
        who, to, number, before, own, _ = envelope(each)
        need(last.get((who, to), (number, before)) == (number, before), "a message does not follow")
        last[who, to] = number + 1, own


def vote(receipt):
    before, entries = None, receipt["entries"]
    host, vote_id = entries[0]["action"]["args"]["keeper"], entries[0]["delib_id"]
    for number, entry in enumerate(entries, 1):
        need(sorted(entry) == ACT and set(entry["action"]) == {"op", "args"}, "members of an entry")
        need((entry["delib_id"], whole(entry["number"])) == (vote_id, number), "the order")
        need(entry["prev"] == before, "an entry does not follow")
        signed = {name: entry[name] for name in ACT if name not in ("signature", "keeper_signature")}
        form, signature = b"comity-delib-v1\n" + jcs(signed).encode(), base64url(entry["signature"])
        need(is_signed(entry["actor"], form, signature), f"the signature of entry {number} is not valid")
        before = sha256(form + signature).hexdigest()
        kept = b"comity-keep-v1\n" + jcs({"delib_id": vote_id, "number": number, "hash": before}).encode()
        need(is_signed(host, kept, base64url(entry["keeper_signature"])), f"the host on entry {number}")


def range_(receipt):
    head, before = dict(receipt["head"]), None
    signature, proof = unhex(head.pop("signature")), receipt.get("proof")
    need(set(head) - {"log", "root", "size"} == HEAD, "members of the head")
    head |= {name: whole(head[name]) for name in ("position", "size") if name in head}
    need(is_signed(receipt["signer"], b"comity audit head 1\n" + ascii_form(head), signature), "the head")
    for text in receipt["entries"]:
        entry = json.loads(text)
        need(list(entry) == ENTRY.split(), "members of an entry")
        need(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) == text, "spaces in an entry")
        number, link, own = entry["chain_position"], entry["previous_hash"], entry.pop("entry_hash")
        need((before or (number, link)) == (number, link) and (number == 1) == (link is None), "the order")
        need(entry.pop("token_count") is entry.pop("content_preview") is None, "more than the hash covers")
        entry |= {"checks_passed": sorted(entry["checks_passed"]), "previous_hash": link or ""}
        need(sha256(ascii_form(entry)).hexdigest() == own, "a hash is wrong")
        before = number + 1, own
    if proof is None:
        need(before == (head["position"] + 1, head["entry_hash"]), "the entries do not end at the head")
    else:
        need(set(proof) == {"hashes"}, "members of the proof")
        index = number - 1 - head["position"] + head["size"]
        need(in_tree(unhex(own), index, head["size"], proof["hashes"]) == head["root"], "the proof")


def in_tree(leaf, index, size, hashes):
    """Return the root that an inclusion proof leads to (RFC 9162, 2.1.3.2)."""
    need(0 <= index < size, "the tree does not have the entry")
    last, found = size - 1, sha256(b"\0" + leaf).digest()
    for each in map(unhex, hashes):
        need(last and len(each) == 32, "the proof is too long")
        right = index & 1 or index == last
        found = sha256(b"\1" + (each + found if right else found + each)).digest()
        while right and index and not index & 1:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    need(last == 0, "the proof is too short")
    return found.hex()


CHECKS = {"call": call, "message": message, "vote": vote, "agreement": vote, "range": range_}


def verify(data):
    """Return 0 and "good", 1 and what is wrong, or 3 and why it cannot be verified."""
    try:
        text = data.removesuffix(b"\n").decode()
        receipt = json.loads(text, parse_int=lambda number: (number,), parse_float=lambda number: (number,))
        need(jcs(receipt) == text, "not in the form of RFC 8785")
        need(receipt.pop("comity_receipt") == ("1",), "another version")
        kind = receipt.pop("kind")
        need(set(receipt) - ({"proof"} if kind == "range" else set()) == TOP[kind], "members")
        if b'"withheld":' in data:
            raise OpenError("texts are withheld")
        CHECKS[kind](receipt)
    except OpenError as why:
        return 3, f"not verifiable: {why}"
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as why:
        return 1, f"bad: {why}"
    return 0, "good"


if __name__ == "__main__":
    worst = 0
    for name in sys.argv[1:]:
        with open(name, "rb") as file:
            code, said = verify(file.read())
        worst = 1 if 1 in (worst, code) else max(worst, code)
        print(f"{name}: {said}")
    sys.exit(worst)
