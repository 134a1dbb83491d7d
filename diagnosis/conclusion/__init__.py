"""One conclusion from all evidence: what happened, where it was seen, who is at fault, and which
checks settle doubts.

Logs, flows and stacks give the typed records of :mod:`diagnosis.evidence`; no kind of evidence is
imported. :func:`~diagnosis.conclusion.conclude.conclude` joins them. Sentence, suspects, advice,
pages and messages read only the conclusion. :mod:`~diagnosis.conclusion.invariants` states what
every conclusion must satisfy. Nothing is imported here: pages read the names of
:mod:`~diagnosis.conclusion.model` and must not load the engine.
"""
