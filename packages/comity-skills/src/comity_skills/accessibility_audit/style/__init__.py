"""How the page looks, as far as its own style attributes and style elements say."""
