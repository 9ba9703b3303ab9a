"""What an envelope can be refused for once it is well formed, beyond its signature."""

from typing import Any

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.errors import ProtocolError
from comity.envelopes.protocol.statement import TipStatement
from comity.identity.protocol.keys import VacantId
from comity.wire.errors import ComityError, ConflictError, ErrorAnswer


class MisdirectedError(ProtocolError):
    """It is addressed to somebody else."""

    code = "misdirected"
    _answer = ErrorAnswer(421, -32052)

    def __init__(self, addressee: VacantId, server: VacantId) -> None:
        super().__init__(f"envelope addressed to {addressee.short()}; this server is {server.short()}")
        self.addressee = addressee


class VacantGoneError(ProtocolError):
    """It will never answer again."""

    code = "vacant_gone"
    _answer = ErrorAnswer(410, -32054)


class VacantAsleepError(ProtocolError):
    """It does not answer now."""

    code = "vacant_asleep"
    _answer = ErrorAnswer(423, -32054)


class BehaviourError(ComityError):
    """The agent's own code failed; the pair is where it was."""

    code = "behaviour_failed"
    _answer = ErrorAnswer(500, -32603)


class OutOfChainError(ConflictError):
    """Not the next envelope of its pair. It carries the signed way back; its cause is the chain's own error."""

    code = "out_of_chain"

    def __init__(self, message: str, pair: PairKey, state: ReplayState, statement: TipStatement) -> None:
        super().__init__(message)
        self.pair = pair
        self.state = state
        self.statement = statement

    def body(self) -> dict[str, Any]:
        return {
            "detail": self.message,
            "expected_sequence_no": self.state.last_sequence_no + 1,
            "chain_tip": self.state.chain_tip.hex(),
            "statement": self.statement.to_json(),
        }
