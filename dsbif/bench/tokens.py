"""The words of a dictation, made comparable.

Lowercase; tokens ``[a-z0-9]+``; spelled digits become digits (zero and oh are 0); runs of digits are split. Nothing
else is equal to anything: "fifty" is not "50", which is why scripts dictate numbers digit by digit.

Source: DSB-IFEval, the normalisation of READBACK.
"""

import re

_DIGITS = {
    "zero": "0", "oh": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9",
}  # fmt: skip


def tokens(text: str) -> tuple[str, ...]:
    """Comparable tokens, in order.

    >>> tokens("Five-five-five, OH 142 Alder St.")
    ('5', '5', '5', '0', '1', '4', '2', 'alder', 'st')
    """
    found: list[str] = []
    for spelled in re.findall(r"[a-z0-9]+", text.lower()):
        word = _DIGITS.get(spelled, spelled)
        found.extend(word if word.isdigit() else (word,))
    return tuple(found)
