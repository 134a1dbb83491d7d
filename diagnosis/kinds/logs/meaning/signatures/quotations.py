"""What a message says itself, and what it only quotes. Quotations lend no words to rules.

Rules for programs and rules for machines hear different texts. ``KeyError: 'node_lost'`` says that
the program's own table has no such key: a fault of the program may be read from that name, a fault
of a machine may not.
"""

from __future__ import annotations

import re
from typing import Final, Self

import msgspec
import polars as pl

from diagnosis.kinds.logs.meaning.signatures.model import USER_AREAS, Signature
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words
from diagnosis.model import Role

#: The start of a general explanation in a message: a possible cause is no evidence that it
#: happened. One guessed cause ("this might be caused by ...") still counts; lists of causes and
#: conditions do not.
HYPOTHESIS_WORDS: Final = (
    r"(?i)(?:\b(?:this|which|it) (?:can|could|may|might|usually|typically|often)? ?(?:happens?|occurs?) when\b"
    r"|\b(?:there are )?(?:some |several |many |most )?(?:potential|possible|common|likely|typical|usual) (?:root )?"
    r"(?:causes?|reasons?)\b|\ba (?:common|possible|likely|frequent|typical) (?:cause|reason)\b"
    r"|\b(?:most )?(?:likely|probably) caused by\b.{0,80}\be\.g\."
    r"|\bif (?:the )?(?:exit ?code|return ?code|signal|status) is\b"
    r"|\b(?:this|which|it) (?:usually |typically |often )?(?:indicates|means|suggests) that\b|\bsolution: ?\d\.).*$"
)
#: A numbered line of source, as notebooks and rich tracebacks print it.
SOURCE_LINE: Final = words.pattern("phrases", "source_line")
#: A typed exception: names in quotes in its text are the program's.
EXCEPTION: Final = words.pattern("phrases", "exception") + r"|(?:^|[\s\]])Exception:\s"
#: An error of the language itself, to the end of the line.
LANGUAGE_ERROR: Final = words.pattern("phrases", "language_error") + ".*$"
#: The value of a property says that nothing is wrong ("Thermal slowdown : Not Active").
SAYS_NO: Final = words.pattern("phrases", "says_no")
#: A line of counters behind their numbers, and one of them that counts nothing.
COUNTERS: Final = words.pattern("phrases", "counters")
_COUNTED_NONE: Final = r"\b0 [A-Za-z][A-Za-z/()\- ]*"
#: A line that tells of no event, such as a sample of generated text.
NO_EVENT: Final = words.pattern("phrases", "no_event")
#: What a collector puts before a line: the name of its writer tells no event.
_WRITER_LABEL: Final = r"\[pod/[^\]]+\]"
#: A name in quotes: one word, no path.
QUOTED_NAME: Final = r"""['"`][A-Za-z_][\w.\-]*['"`]"""
#: An error that refuses a value, and any words in quotes.
VALUE_ERROR: Final = words.pattern("phrases", "value_error")
_QUOTED_WORDS: Final = r"""'[^'\n]+'|"[^"\n]+"|`[^`\n]+`"""
#: A name of the program without quotes: words joined by underscores, and no call of a library.
_JOINED_NAME: Final = r"\b[a-z]+(?:_[a-z]+)+([^\w(]|$)"
#: The name of a class of the program, as errors of Python and of its libraries give it.
_CLASS_NAME: Final = r"\b(state_dict for|instance of|object of type|class) '?[A-Z]\w+"
#: A line of source that a traceback quotes: its names are the program's, too.
QUOTED_CODE: Final = words.pattern("phrases", "quoted_code")
#: Beginnings of the categories whose cause may be a name in a program.
PROGRAM: Final = ("user.", "framework.")


class RuleTexts(msgspec.Struct, frozen=True):
    """The same texts as each kind of rule reads them. ``whole``: rules of users; ``certain``: rules
    about programs, and of harmless words; ``of_machines``: rules about anything else that is wrong.
    """

    whole: pl.Series
    certain: pl.Series
    of_machines: pl.Series

    @classmethod
    def of(cls, texts: pl.Series) -> Self:
        """O(characters)."""
        text, hay = pl.col("text"), Haystack.of(texts)
        claims = hay.replace(hay.replace(text, HYPOTHESIS_WORDS, ""), _WRITER_LABEL, "")
        counted = hay.replace_all(claims, _COUNTED_NONE, "")
        claims = pl.when(hay.contains(text, COUNTERS)).then(counted).otherwise(claims)
        quiet = [hay.contains(text, pattern) for pattern in (SOURCE_LINE, SAYS_NO, NO_EVENT)]
        is_no_event = pl.any_horizontal(quiet)
        certain = pl.when(is_no_event).then(pl.lit("")).otherwise(claims)
        unnamed = hay.replace_all(hay.replace(text, LANGUAGE_ERROR, ""), QUOTED_NAME, "'x'")
        unnamed = hay.replace_all(unnamed, _CLASS_NAME, "$1 x")
        unnamed = hay.replace_all(unnamed, _JOINED_NAME, "x$1")
        unquoted = hay.replace_all(unnamed, _QUOTED_WORDS, "'x'")
        unnamed = pl.when(hay.contains(text, VALUE_ERROR)).then(unquoted).otherwise(unnamed)
        is_of_program = hay.contains(text, EXCEPTION) | hay.contains(text, QUOTED_CODE)
        own = pl.when(is_of_program).then(unnamed).otherwise(text)
        read = pl.DataFrame({"text": texts}).with_columns(certain=certain)
        return cls(texts, read["certain"], read.select(text="certain").select(own).to_series())

    def by(self, sig: Signature) -> pl.Series:
        """The texts as one rule reads them; one that spells a name in quotes means that name."""
        if sig.area in USER_AREAS:
            return self.whole
        is_harmless = sig.role in {Role.BENIGN, Role.ADVICE}
        means_name = re.search(QUOTED_NAME, sig.pattern) is not None
        return self.certain if is_harmless or means_name or sig.category.startswith(PROGRAM) else self.of_machines


def is_program_error(text: str) -> bool:
    """Whether a message is a typed exception of the program: its words are names that the program
    gave, so they may tell a fault of the program or of its framework, and none of a machine.
    """
    is_typed = re.search(EXCEPTION, text) is not None
    return is_typed and words.regex("phrases", "system_error").search(text) is None


def without_names(text: str) -> str:
    """A typed exception without names and errors of the language; other messages as they are."""
    if re.search(EXCEPTION, text) is None:
        return text
    unquoted = re.sub(QUOTED_NAME, "", re.sub(LANGUAGE_ERROR, "", text))
    return re.sub(_JOINED_NAME, r"\1", unquoted)
