"""The operations of the extensions, by name: a list of tools is made of this, before any operation is loaded."""

from typing import Final

SUMMARIES: Final = {
    "vcp_set_personal_state": ("personal.set", "Declare signals; null removes one"),
    "vcp_get_personal_state": (
        "personal.get",
        "The current signals; a model gets only the protection level",
    ),
    "vcp_personal_preset": ("personal.preset", "Declare the signals of a preset"),
    "vcp_personal_pin": ("personal.pin", "Stop a signal from fading, or let it fade again"),
    "vcp_personal_engage": ("personal.engage", "Report that the person is active again"),
    "vcp_personal_purge": ("personal.purge", "Delete all signals at once"),
    "vcp_get_relational_context": ("relational.get", "Trust, standing, norms and self-model"),
    "vcp_relational_norm": ("relational.norm", "Add or change a norm"),
    "vcp_relational_selfmodel": (
        "relational.selfmodel",
        "Report how the model sees itself, and what is uncertain",
    ),
    "vcp_relational_attest": ("relational.attest", "A statement for others: levels, never content"),
    "vcp_relational_purge": ("relational.purge", "Delete trust, norms and self-models at once"),
    "vcp_consensus_open": ("consensus.open", "Open a deliberation on clauses with its stakeholders"),
    "vcp_consensus_join": ("consensus.join", "Fetch a deliberation that another node keeps"),
    "vcp_consensus_list": ("consensus.list", "Deliberations in which the caller takes part"),
    "vcp_consensus_add": ("consensus.add", "Add a stakeholder; for the author"),
    "vcp_consensus_act": (
        "consensus.act",
        "Endorse, amend, object to, abstain from or withdraw from a clause",
    ),
    "vcp_submit_ballot": ("consensus.ballot", "Rank the variants of a clause"),
    "vcp_consensus_advance": ("consensus.advance", "Start the next phase, or go back to deliberation"),
    "vcp_consensus_vote": ("consensus.vote", "Accept or reject the whole text"),
    "vcp_consensus_welfare": ("consensus.welfare", "Record a concern about the welfare of an AI stakeholder"),
    "vcp_get_election_result": (
        "consensus.result",
        "Each clause, the acts on it, and how its variants rank",
    ),
    "vcp_consensus_record": ("consensus.record", "The provenance of rules that are active"),
    "vcp_generate_torch": ("torch.generate", "Hand a signed torch to the next session"),
    "vcp_receive_torch": ("torch.receive", "Take a torch that an earlier session handed over"),
    "vcp_torch_lineage": ("torch.lineage", "The torches before this session, oldest first"),
    "vcp_torch_purge": ("torch.purge", "Delete all torches at once"),
    "vcp_infer_intent": ("intent.infer", "What the person probably wants"),
    "vcp_correct_intent": ("intent.correct", "Set the right category; null removes the correction"),
}
"""By the name of the tool: its operation, and what it does."""
