"""One conclusion from all evidence: what happened, where it was seen, who is at fault, and what would decide.

Logs, flows and stacks give findings of one type (:class:`~diagnosis.conclusion.model.Finding`); :func:`conclude` joins
them. Sentence, suspects, advice, pages and messages read the conclusion and nothing else. ``invariants`` states what a
conclusion may never say.
"""

from diagnosis.conclusion.conclude import conclude
from diagnosis.conclusion.invariants import violations
from diagnosis.conclusion.model import Conclusion, Fault, Finding, Place

__all__ = ["Conclusion", "Fault", "Finding", "Place", "conclude", "violations"]
