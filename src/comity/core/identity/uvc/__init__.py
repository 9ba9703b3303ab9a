"""UVC value tokens: dotted names such as `family.safe.guide@1.2.0:SEC` (vcp 2.1, form U)."""
