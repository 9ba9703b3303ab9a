"""Sessions of every version, and the context request that the first document shows."""

from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.messages import PERSONAL

WIRE = "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"

REQUEST = {
    "version": "3.1",
    "categorical": {"wire": WIRE},
    "personal": {
        "signals": {
            "emotional_tone": {
                "category": "emotional_tone",
                "value": "tense",
                "intensity": 3,
                "source": "declared",
                "confidence": 0.9,
                "declared_at": "2026-02-28T21:30:00Z",
            },
            "energy_level": {"category": "energy_level", "value": "fatigued", "intensity": 4},
        }
    },
    "generation_preferences": {"depth": 4, "formality": 2, "directness": 3, "technical_level": 2},
}


def session(*extensions, version="3.1"):
    return Session(id="ses_1", version=version, extensions=extensions)


PERSONAL_SESSION = session(PERSONAL)
