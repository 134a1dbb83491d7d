"""One conclusion from all evidence: what happened, where it was seen, who is at fault, and what would decide.

Logs, flows and stacks give findings of one type (:class:`~diagnosis.conclusion.model.Finding`);
:func:`~diagnosis.conclusion.conclude.conclude` joins them. Sentence, suspects, advice, pages and messages read the
conclusion and nothing else. :mod:`~diagnosis.conclusion.invariants` states what a conclusion may never say.

Nothing is imported here: pages read the names of :mod:`~diagnosis.conclusion.model` and must not load the engine.
"""
