"""A stand-in for the registry of the reference release, made from its recorded exchanges.

It is as strict as the original where a client could go wrong: unknown members, a number that is not the next,
a key used twice, a signature that does not hold. `test_reference_registry` replays the recording against it.
"""

from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from comity.directory.protocol.signed_requests import register_event, registered_payload
from comity.envelopes.protocol.card import Visibility, deserialize
from comity.http.client import HttpResponse
from comity.wire import strict_json
from comity.wire.errors import ComityError
from tests.http.local_server import reply

REQUIRED = {
    "capability_card_blob_hex": str,
    "runtime_state": str,
    "event_ts_ms": int,
    "event_actor_seq": int,
    "event_idempotency_key": str,
    "event_signature_hex": str,
}
OPTIONAL = {
    "visibility": str,
    "base_model": str,
    "base_model_family": str,
    "owner_org": str,
    "declared_capabilities": list,
    "parent_id": str,
    "version": str,
}


class ReferenceRegistry:
    def __init__(self):
        self.events = []
        self.halos = {}
        self.keys = set()
        self.asked = []

    async def request(self, method, url, json=None, headers=None, *, body=None):
        """What a client of ours calls as its HTTP."""
        split = urlsplit(url)
        self.asked.append((method, f"{split.path}?{split.query}".rstrip("?"), json))
        status, shown = self.answer(method, split.path, dict(parse_qsl(split.query)), json)
        return HttpResponse(status, {}, strict_json.dumps(shown))

    def over_http(self, request):
        """The same for a real connection: the bytes of a request in, those of the answer out."""
        head, _, body = request.partition(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        split = urlsplit(target)
        asked = strict_json.loads(body) if body else None
        status, shown = self.answer(method, split.path, dict(parse_qsl(split.query)), asked)
        return reply(strict_json.dumps(shown), f"{status} Said")

    def answer(self, method, path, query, body):
        match method, path.strip("/").split("/"):
            case "POST", ["v1", "halo"]:
                return self._publish(body)
            case "GET", ["v1", "event_log", vid]:
                return 200, self._log(vid, int(query.get("from_seq", 0)), int(query.get("limit", 100)))
            case "GET", ["v1", "event", seq]:
                found = [event for event in self.events if event["seq"] == int(seq)]
                return (200, found[0]) if found else (404, {"detail": "no such event"})
            case "GET", ["v1", "capability_card", vid]:
                return self._card(vid, query.get("caller"))
            case "POST", ["v1", "query_capability"]:
                return self._search(query)
            case "GET", ["v1", "lineage", vid]:
                return 200, {"vacant_id": vid, "direction": query["direction"], "chain": []}
            case "GET", ["v1", "revocation_list"]:
                return 200, []
            case "POST", ["v1", "revoke_halo"]:
                return (422, {"detail": []}) if body is None else (501, {"not_implemented_in_p4": True})
        return 404, {"detail": "Not Found"}

    def _publish(self, body):
        wrong = _wrong_member(body)
        if wrong is not None:
            return 422, {"detail": [{"type": wrong[0], "loc": ["body", wrong[1]], "msg": wrong[0]}]}
        try:
            card = deserialize(bytes.fromhex(body["capability_card_blob_hex"]))
            visibility = Visibility(body.get("visibility", "PUBLIC"))
        except (ValueError, ComityError) as fault:
            return 400, {"detail": f"bad card: {fault}"}
        vid = card.vacant_id.hex()
        event = register_event(
            card,
            visibility,
            idempotency_key=body["event_idempotency_key"],
            ts_ms=body["event_ts_ms"],
            actor_seq=body["event_actor_seq"],
        )
        signature = bytes.fromhex(body["event_signature_hex"])
        event = replace(event, signature=signature)
        if not event.verify() or not card.verify():
            return 401, {"detail": "event signature invalid"}
        last = max((row["actor_seq"] for row in self.events if row["actor_vacant_id"] == vid), default=0)
        if body["event_actor_seq"] != last + 1:
            return 409, {"detail": f"actor_seq must be {last + 1}"}
        if body["event_idempotency_key"] in self.keys:
            return 409, {"detail": "idempotency key conflict"}
        self.keys.add(body["event_idempotency_key"])
        self._record(card, visibility, event, body)
        return 200, {
            "vacant_id": vid,
            "visibility": visibility.value,
            "event_seq": len(self.events),
            "capability_card_hash_hex": card.card_hash().hex(),
        }

    def _record(self, card, visibility, event, body):
        vid = card.vacant_id.hex()
        previous = bytes.fromhex(self.events[-1]["event_hash_hex"]) if self.events else bytes(32)
        payload = registered_payload(
            vacant_id=card.vacant_id,
            card_hash=card.card_hash(),
            halo_version=card.halo_version,
            visibility=visibility,
        )
        self.events.append(
            {
                "seq": len(self.events) + 1,
                "event_type": "register",
                "actor_vacant_id": vid,
                "subject_vacant_id": None,
                "payload_json": payload.decode(),
                "event_hash_hex": event.event_hash(previous).hex(),
                "actor_seq": event.actor_seq,
                "ts": event.ts_ms,
            }
        )
        declared = body.get("declared_capabilities") or [card.capability_text]
        family = body.get("base_model_family") or self.halos.get(vid, {}).get("base_model_family")
        self.halos[vid] = {
            "vacant_id": vid,
            "capability_card_hash_hex": card.card_hash().hex(),
            "capability_card_sig_hex": card.signature.hex(),
            "capability_card_blob_hex": body["capability_card_blob_hex"],
            "declared_capabilities_json": strict_json.dumps(declared).decode(),
            "base_model_family": family,
            "visibility": visibility.value,
            "score": 0.0,
        }

    def _log(self, vid, from_seq, limit):
        rows = [row for row in self.events if row["actor_vacant_id"] == vid and row["seq"] > from_seq]
        return rows[:limit]

    def _card(self, vid, caller):
        halo = self.halos.get(vid)
        if halo is None:
            return 404, {"detail": "no such card"}
        if halo["visibility"] == "NONE" and caller != vid:
            return 403, {"detail": "not visible"}
        return 200, halo

    def _search(self, query):
        limit = int(query.get("limit", 20))
        if not 1 <= limit <= 100:
            return 422, {"detail": [{"type": "greater_than_equal", "loc": ["query", "limit"]}]}
        found = [
            halo
            for halo in self.halos.values()
            if halo["visibility"] == "PUBLIC"
            and query.get("capability", "") in halo["declared_capabilities_json"]
            and query.get("family") in {None, halo["base_model_family"]}
        ]
        return 200, {"matches": found[:limit], "not_implemented_in_p4": []}


def _wrong_member(body):
    """The kind of fault and the member, as the original's validation names them; None for a good body."""
    if not isinstance(body, dict):
        return "missing", "body"
    for name in REQUIRED:
        if name not in body:
            return "missing", name
    for name, value in body.items():
        kind = REQUIRED.get(name) or OPTIONAL.get(name)
        if kind is None:
            return "extra_forbidden", name
        if not isinstance(value, kind) and not (value is None and name in OPTIONAL):
            return "wrong_type", name
    return None
