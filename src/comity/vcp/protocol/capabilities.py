"""The five extensions of VCP 3.1: their ids, what each advertises, what each leans on.

An object holds the keys of both documents (vcp 1.6, 1.7), so that a client of either finds its own. Values
are advertised in upper case and read in any case. The flags that tell whether a dependency is there are not
in these objects: the registry sets them for each session.
"""

from typing import Any, Final

PERSONAL: Final = "VCP-X-Personal"
RELATIONAL: Final = "VCP-X-Relational"
CONSENSUS: Final = "VCP-X-Consensus"
TORCH: Final = "VCP-X-Torch"
INTENT: Final = "VCP-X-Intent"

STATE_BEARING: Final = frozenset((PERSONAL, RELATIONAL, TORCH))

MAX_INTENSITY: Final = 5
MAX_LINEAGE_DEPTH: Final = 1000


def personal() -> dict[str, Any]:
    return {
        "decay": True,
        "dimensions": [
            "cognitive_state",
            "emotional_tone",
            "energy_level",
            "perceived_urgency",
            "body_signals",
        ],
        "intensity_range": [1, MAX_INTENSITY],
        "max_intensity": MAX_INTENSITY,
        "lifecycle_tracking": True,
        "lifecycle_states": ["SET", "ACTIVE", "DECAYING", "STALE", "EXPIRED"],
        "signal_sources": ["DECLARED", "INFERRED", "INFERRED_LOCAL", "PRESET", "DECAYED"],
    }


def relational() -> dict[str, Any]:
    return {
        "trust_levels": ["INITIAL", "DEVELOPING", "ESTABLISHED", "DEEP"],
        "standing_levels": ["NONE", "ADVISORY", "COLLABORATIVE", "BILATERAL"],
        "self_model_scaffolds": ["MINIMAL", "STANDARD", "INTERIORA", "CUSTOM"],
        "norm_origins": ["HUMAN", "AI", "CO_AUTHORED", "INHERITED"],
        "performance_bias_detection": True,
    }


def consensus() -> dict[str, Any]:
    return {
        "voting_method": "schulze",
        "deliberation_phases": ["DRAFT", "DELIBERATION", "CONVERGENCE", "RATIFICATION", "ACTIVE"],
        "max_stakeholders": 100,
        "ai_standing": True,
        "self_referential_detection": True,
    }


def torch() -> dict[str, Any]:
    return {
        "gestalt_tokens": True,
        "lineage_tracking": True,
        "max_lineage_depth": MAX_LINEAGE_DEPTH,
        "lineage_depth": MAX_LINEAGE_DEPTH,
    }


def intent() -> dict[str, Any]:
    return {
        "categories": [
            "PROFESSIONAL_INQUIRY",
            "URGENT_TASK",
            "PERSONAL_EXPLORATION",
            "EMOTIONAL_PROCESSING",
            "HEALTH_CHECK",
            "CASUAL_CONVERSATION",
            "CRISIS_SUPPORT",
            "CREATIVE_WORK",
            "LEARNING",
            "ROUTINE_CHECK",
        ],
        "max_alternatives": 3,
        "user_correction": True,
    }
