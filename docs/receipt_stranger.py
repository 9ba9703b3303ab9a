"""Verify receipts of Comity without Comity: plain Python and PyNaCl. docs/reference/receipts.md has the format.

    python receipt_stranger.py receipt.json ...     exit code 0 good, 1 bad, 3 not verifiable

It checks signatures, hashes and order. It counts no votes: whether the acts of a vote lead to an agreement, and whether an
act was allowed, is for a program that knows the rules.
"""

import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime

from nacl.exceptions import CryptoError
from nacl.exceptions import ValueError as KeyFault
from nacl.signing import VerifyKey

TOP = {"call": {"request", "reply"}, "message": {"messages"}, "vote": {"entries"}, "agreement": {"entries"}}
TOP["range"] = {"entries", "head", "signer"}
VACANT = ["caller_signature", "from_vacant_id", "idempotency_key", "prev_envelope_hash", "sequence_no"]
VACANT += ["timestamp", "to_vacant_id"]
ACT = ["action", "actor", "delib_id", "keeper_signature", "number", "on_behalf", "prev", "signature", "time"]
HASHED = "audit_level bundle_id_hash bundle_version chain_position checks_passed content_hash created_at duration_ms "
HASHED += "failed_step issuer_hash manifest_signature previous_hash request_id_hash session_id_hash verification_result"
ENTRY = "session_id_hash request_id_hash verification_result checks_passed failed_step duration_ms bundle_id_hash "
ENTRY += "content_hash issuer_hash bundle_version manifest_signature audit_level token_count content_preview created_at "
ENTRY += "chain_position previous_hash entry_hash"


class OpenError(Exception):
    """Nothing is wrong, and it cannot be verified."""


def need(holds, what):
    if not holds:
        raise ValueError(what)


def jcs(value):
    """RFC 8785. Numbers are texts here: a receipt already has them in its form."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return (
            "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{jcs(value[key])}" for key in keys) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(jcs, value)) + "]"
    return value[0] if isinstance(value, tuple) else json.dumps(value, ensure_ascii=False)


def whole(number):
    need(isinstance(number, tuple) and number[0].isdecimal(), "a number is not a whole one")
    return int(number[0])


def signed_by(key, message, signature, who):
    need(len(key) == 64 and key == key.lower() and len(signature) == 64, f"{who}: no key, or no signature")
    try:
        VerifyKey(bytes.fromhex(key)).verify(message, signature)
    except (CryptoError, KeyFault, TypeError):
        raise ValueError(f"{who}: the signature is not valid") from None


def unhex(text):
    need(bytes.fromhex(text).hex() == text, "something is not in lower-case hex")
    return bytes.fromhex(text)


def base64url(text):
    raw = urlsafe_b64decode(text + "==")
    need(urlsafe_b64encode(raw).rstrip(b"=").decode() == text, "a signature is not base64url")
    return raw


def envelope(message):
    """Check a signed message; return who, to whom, its number, the hash before it, its own hash, and its key."""
    about = message["metadata"]["urn:vacant:v1"]
    need(set(message) - {"selfEval"} == {"role", "parts", "contextId", "messageId", "metadata"}, "members")
    need(sorted(about) == VACANT and set(message["metadata"]) == {"urn:vacant:v1"}, "members of metadata")
    need(all(set(part) == {"type", "text"} and part["type"] == "text" for part in message["parts"]), "parts")
    need(message["role"] in ("ROLE_USER", "ROLE_AGENT", "ROLE_TOOL"), "a role that nobody has")
    moment = datetime.fromisoformat(about["timestamp"]).isoformat()
    need(moment == about["timestamp"] and moment.endswith("+00:00"), "the time is not written in UTC")
    payload = {name: message[name] for name in ("contextId", "messageId", "parts", "role")}
    signed = {"from": about["from_vacant_id"], "to": about["to_vacant_id"], "idem": about["idempotency_key"]}
    need(whole(about["sequence_no"]) and len(unhex(about["prev_envelope_hash"])) == 32, "no place in a chain")
    signed |= {"prev": about["prev_envelope_hash"], "seq": whole(about["sequence_no"]), "ts": moment}
    judged = message.get("selfEval")  # a second dialect signs this member, also where there is none
    judged = judged and {name: float(number[0]) for name, number in judged.items()}
    for form in (
        [payload, {**payload, "selfEval": None}] if judged is None else [{**payload, "selfEval": judged}]
    ):
        form = json.dumps(
            {**signed, "payload": form}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        try:
            signed_by(signed["from"], form.encode(), unhex(about["caller_signature"]), "a message")
        except ValueError as why:
            fault = why
            continue
        own = hashlib.blake2b(form.encode(), digest_size=32).hexdigest()
        return signed["from"], signed["to"], signed["seq"], signed["prev"], own, signed["idem"]
    raise fault


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
    before, host, entries = None, None, receipt["entries"]
    need(entries, "there is no entry")
    for number, entry in enumerate(entries, 1):
        host = host or entry["action"]["args"]["keeper"]
        need(sorted(entry) == ACT and set(entry["action"]) == {"op", "args"}, "members of an entry")
        need(entry["delib_id"] == entries[0]["delib_id"] and whole(entry["number"]) == number, "the order")
        need(entry["prev"] == before, "an entry does not follow")
        signed = {name: entry[name] for name in ACT if name not in ("signature", "keeper_signature")}
        form, signature = b"comity-delib-v1\n" + jcs(signed).encode(), base64url(entry["signature"])
        signed_by(entry["actor"], form, signature, f"entry {number}")
        before = hashlib.sha256(form + signature).hexdigest()
        tip = {"delib_id": entry["delib_id"], "number": entry["number"], "hash": before}
        kept = b"comity-keep-v1\n" + jcs(tip).encode()
        signed_by(host, kept, base64url(entry["keeper_signature"]), f"the host on entry {number}")


def range_(receipt):
    head, before = dict(receipt["head"]), None
    signature = unhex(head.pop("signature"))
    need(
        set(head) - {"log", "root", "size"} == {"at", "chain", "entry_hash", "position"},
        "members of the head",
    )
    head |= {name: whole(head[name]) for name in ("position", "size") if name in head}
    form = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    signed_by(receipt["signer"], b"comity audit head 1\n" + form, signature, "the head")
    for text in receipt["entries"]:
        entry = json.loads(text)
        need(list(entry) == ENTRY.split(), "members of an entry")
        need(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) == text, "spaces in an entry")
        need(entry["token_count"] is None and entry["content_preview"] is None, "more than the hash covers")
        link = entry["chain_position"], entry["previous_hash"]
        need((before or link) == link and (link[0] == 1) == (link[1] is None), "an entry does not follow")
        form = {name: entry[name] for name in HASHED.split()}
        form |= {"checks_passed": sorted(form["checks_passed"]), "previous_hash": form["previous_hash"] or ""}
        form = json.dumps(form, sort_keys=True, separators=(",", ":")).replace("\x7f", "\\u007f")
        need(hashlib.sha256(form.encode()).hexdigest() == entry["entry_hash"], "a hash is wrong")
        before = link[0] + 1, entry["entry_hash"]
    need(before == (head["position"] + 1, head["entry_hash"]), "the entries do not end at the head")


CHECKS = {"call": call, "message": message, "vote": vote, "agreement": vote, "range": range_}


def verify(data):
    """Return 0 and "good", 1 and what is wrong, or 3 and why it cannot be verified."""
    try:
        number = lambda text: (text,)  # noqa: E731
        text = data.removesuffix(b"\n").decode()
        receipt = json.loads(text, parse_int=number, parse_float=number)
        need(jcs(receipt) == text, "not in the form of RFC 8785")
        need(receipt.pop("comity_receipt") == ("1",), "another version")
        kind = receipt.pop("kind")
        need(set(receipt) == TOP[kind], "members")
        if b'"withheld":' in data:
            raise OpenError("texts are withheld")
        CHECKS[kind](receipt)
    except OpenError as why:
        return 3, f"not verifiable: {why}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as why:
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
