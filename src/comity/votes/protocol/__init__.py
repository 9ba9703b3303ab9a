"""VCP-X-Consensus: parties write rules together, rank the variants and ratify the outcome (vcp 6.3; ruling 50a)."""
