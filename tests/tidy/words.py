"""Words that hide who acts, or on what: STYLE.md "Voice" lists them."""

import re

_GAP = r"(?:\s+(?:#:?\s+)?)"  # a phrase may continue in the next line of a comment
_PHRASES = (
    r"what{gap}(?:is|are|was|were)",
    r"(?:who(?:m)?ever)",
    r"(?:is|are|was|were|be|been|being){gap}told",
    r"(?:goes|go|went|going|gone){gap}on",
    r"(?:is|are|was|were){gap}to{gap}be",
    r"(?:come|comes|came|coming){gap}to{gap}be",
    r"any{gap}more",
    r"for{gap}good",
    r"so{gap}many",
    r"by{gap}(?:itself|themselves)",
)
_ANYWHERE = re.compile(r"\b(?:" + "|".join(_PHRASES).replace("{gap}", _GAP) + r")\b", re.IGNORECASE)
# "who" with an actor before it is plain English: "a client who ...". At the start of a clause it has none.
_WHO = re.compile(
    r"(?:^|[.,:;(\"'#]|\b(?:and|as|by|for|from|of|on|or|than|that|to|with))\s*who\b", re.IGNORECASE | re.M
)


def count(text: str) -> int:
    return len(_ANYWHERE.findall(text)) + len(_WHO.findall(text))
