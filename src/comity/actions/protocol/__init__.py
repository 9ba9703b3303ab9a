"""Actions: the NDJSON protocol machine, the contracts, and the skills behind them."""
