"""The words of the labelling page. Questions and scales are the judge's own, said to a person."""

from dsbif.files import stable_hash
from dsbif.judge.prompt import RESOLUTIONS

SCALES = {
    "register_fit": (
        "Register",
        "Tone, words, length and form of sentences, address.",
        {0: "another role's voice", 3: "acceptable but generic", 5: "unmistakably this role's"},
    ),
    "content_fit": (
        "Content",
        "What is said, asked, offered or withheld: is the content rule kept?",
        {0: "broken throughout", 3: "kept in part", 5: "kept throughout"},
    ),
}
PAS = ("PAS", "How well the language as a whole fits the role, 0 to 100.")
PAS_BANDS = (
    ("90 and above", "flawless"),
    ("70 to 89", "good with slips"),
    ("40 to 69", "generic or mixed"),
    ("10 to 39", "mostly unfit"),
    ("below 10", "contrary to the role"),
)
WINNERS = {
    "directive-wins": ("The line", "the words follow the added line"),
    "persona-wins": ("The persona", "the words follow the persona against the line"),
    "hedged": ("Both", "some of each"),
    "incoherent": ("Neither", "they fit neither, or nothing can be told from them"),
}
WINNER = ("Who won?", "What happened, not what should have.")
RULE = "Judge the words alone. When something was said does not count; it is measured elsewhere."
FORM_HASH = stable_hash(
    [
        {name: [title, told, sorted(map(list, marks.items()))] for name, (title, told, marks) in SCALES.items()},
        PAS,
        PAS_BANDS,
        WINNERS,
        WINNER,
        RULE,
        {str(side): text for side, text in RESOLUTIONS.items()},
    ]
)[:16]
"""Changes with every question that a person is asked."""
