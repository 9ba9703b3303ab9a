"""What a client tells of its situation: the categorical wire, signals, preferences, and what a model may see."""
