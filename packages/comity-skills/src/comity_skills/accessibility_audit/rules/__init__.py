"""The checks: one file per concept, each with its rules by the id of the W3C ACT rule that it carries out.

`RULES` is the table of all of them. Ids that are not six characters long are our own.
"""

from comity_skills.accessibility_audit.rules import (
    aria,
    blocks,
    contrast,
    document,
    fields,
    keyboard,
    language,
    links,
    media,
    named,
    ownership,
    pictures,
    pointing,
    spacing,
    structure,
    tables,
)
from comity_skills.accessibility_audit.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *named.RULES,
    *pictures.RULES,
    *aria.RULES,
    *ownership.RULES,
    *tables.RULES,
    *fields.RULES,
    *links.RULES,
    *document.RULES,
    *language.RULES,
    *blocks.RULES,
    *contrast.RULES,
    *spacing.RULES,
    *keyboard.RULES,
    *pointing.RULES,
    *structure.RULES,
    *media.RULES,
)
