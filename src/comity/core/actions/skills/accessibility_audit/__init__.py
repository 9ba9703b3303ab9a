"""The accessibility audit: pages checked by rule on a parsed tree, and the criteria of WCAG 2.2 as a list."""
