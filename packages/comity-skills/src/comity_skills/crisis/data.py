"""The names of the data files, apart from the code that reads them: whoever only lists them loads no more."""

LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "zh", "ja", "ko", "ar", "hi")
LEXICONS = tuple(f"crisis/lexicon/{language}.json" for language in LANGUAGES)
SIGNS = tuple(f"crisis/signs/{language}.json" for language in LANGUAGES)
RULES = ("crisis/signs/rules.json",)
OPINION = "crisis/opinion.json"
DANGERS = "crisis/danger.json"
