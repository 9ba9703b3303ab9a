"""CSM-1: a constitution named in a few letters, such as `N5+E+F:ELEM@1.2.0` (vcp 3.1)."""
