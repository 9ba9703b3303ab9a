"""What the actions know: one package for each skill, and the packages they share, with their data beside them."""
