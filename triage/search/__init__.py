"""The search language of the queue, the list, the statistics and the API."""

from triage.search.grammar import Group, SearchError, Term
from triage.search.keys import ALL as KEYS
from triage.search.query import Query, parse
from triage.search.suggestions import Suggestion, suggest
from triage.search.unknown_values import Hint, hints

__all__ = ["KEYS", "Group", "Hint", "Query", "SearchError", "Suggestion", "Term", "hints", "parse", "suggest"]
