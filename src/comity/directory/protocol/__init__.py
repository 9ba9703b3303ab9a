"""What is known of an agent's work: five posteriors, what a review adds to them, what they are worth."""
