"""Who a vacant is to others: its card, its life cycle, its logbook and how it is registered."""
