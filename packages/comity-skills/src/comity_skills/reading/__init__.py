"""How hard a text is to read: sentences, words, syllables and the readability formulas over them."""
