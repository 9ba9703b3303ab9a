"""Whether a token or a bundle still counts: lists, stapled proofs and the local denylist (vcp 5.4)."""
