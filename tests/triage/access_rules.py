"""Who may call what: each address of the site and each operation of the API with its rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from scripts.openapi import SCHEMA
from tests import yamls

OPEN, ALL, TEAM, OWNER = "open", "all", "team", "owner"


@dataclass(frozen=True)
class Rule:
    """Who sees it, what a role must allow, and a request that does something."""

    seen_by: str
    ability: str = ""
    send: dict[str, Any] = field(default_factory=dict)
    query: str = ""
    #: the evidence of this cast holds nothing to show there; its own tests do
    is_bare: bool = False


def post(seen_by: str, ability: str = "", **send: Any) -> Rule:
    return Rule(seen_by, ability, send)


_LOG = "<attempt>/<path>"
RULES: dict[str, Rule] = {
    "GET /": Rule(ALL),
    "GET /account/confirm/": Rule(ALL),
    "GET /account/confirm/code/": Rule(ALL),
    "GET /account/password/": Rule(ALL),
    "GET /account/password/none/": Rule(ALL, is_bare=True),
    "GET /account/second-step/": Rule(ALL),
    "GET /account/second-step/on/": Rule(ALL),
    "GET /account/second-step/off/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/new/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/download/": Rule(ALL, is_bare=True),
    "GET /account/services/": Rule(ALL, "administer"),
    "GET /account/sessions/": Rule(ALL),
    "POST /account/sessions/": post(ALL, end="1"),
    "GET /account/tokens/": Rule(ALL),
    "POST /account/tokens/": post(ALL, name="x", scopes=["read"]),
    "GET /api/docs/": Rule(ALL),
    "GET /api/schema/": Rule(ALL),
    "GET /faultline.pyz": Rule(OPEN),
    "GET /glossary/": Rule(ALL),
    "GET /healthz": Rule(OPEN),
    "GET /help/": Rule(ALL, query="find=token"),
    "GET /help/<name>/": Rule(ALL),
    "GET /help/pictures/<name>": Rule(ALL),
    "GET /incidents.csv": Rule(ALL, "export"),
    "GET /incidents/": Rule(ALL),
    "GET /incidents/<number>.md": Rule(TEAM),
    "GET /incidents/<number>.png": Rule(TEAM, is_bare=True),
    "GET /incidents/<number>/": Rule(TEAM),
    "GET /incidents/<number>/news/": Rule(TEAM),
    "GET /incidents/<number>/assignees/": Rule(TEAM, "review"),
    "GET /incidents/<number>/grouping/": Rule(TEAM),
    "GET /incidents/<number>/next/": Rule(TEAM),
    "GET /incidents/<number>/previous/": Rule(TEAM),
    "POST /incidents/<number>/act/": post(TEAM, "review", act="actioned"),
    "POST /incidents/<number>/assign/": post(TEAM, "review", assignee="owner"),
    "POST /incidents/<number>/comment/": post(TEAM, "review", body="x"),
    "POST /incidents/<number>/decide/": post(TEAM, "review", claim="category", word="confirm"),
    "POST /incidents/<number>/decisions/<decision>/undo/": post(TEAM, "review"),
    "POST /incidents/<number>/group/": post(TEAM, "review", act="split"),
    "POST /incidents/<number>/check/": post(TEAM, "upload", output="nothing", target="gpu-0412"),
    "POST /incidents/<number>/tried/": post(TEAM, "review", action="reboot", outcome="failed"),
    "POST /incidents/<number>/tried/<act>/undo/": post(TEAM, "review"),
    "POST /incidents/bulk/": post(ALL, "review", act="confirm", id=["<number>"]),
    "GET /incidents/suggest/": Rule(ALL, query="q=node:gpu&cursor=8"),
    "GET /ingest/progress/<slug>/": Rule(TEAM),
    "POST /ingest/runs/<pk>/retry/": post(TEAM, "upload"),
    "POST /ingest/runs/<slug>/cancel/": post(TEAM, "upload"),
    "POST /ingest/runs/<slug>/resume/": post(TEAM, "upload"),
    "GET /jobs/": Rule(ALL),
    **{f"GET /jobs/<slug>/{tab}": Rule(TEAM) for tab in ("", "compare/", "cost/", "events/", "facts/", "flows/")},
    **{
        f"GET /jobs/<slug>/{tab}": Rule(TEAM)
        for tab in ("files/", "stacks/", "work/", "timeline/<attempt>/", "curves/<other>/")
    },
    "GET /jobs/<slug>/facts.csv": Rule(TEAM, is_bare=True),
    **{f"GET /jobs/<slug>/{act}/{_LOG}": Rule(TEAM) for act in ("logs", "context", "raw", "map", "templates")},
    f"GET /jobs/<slug>/find/{_LOG}": Rule(TEAM, query="words=iteration"),
    "GET /jobs/<slug>/search/<attempt>/": Rule(TEAM, query="find=iteration&cursor="),
    "GET /jobs/<slug>/search/<attempt>/step/": Rule(TEAM, query="words=iteration"),
    f"GET /jobs/<slug>/instant/{_LOG}": Rule(TEAM, query="at=2026-11-21T03:00:00Z"),
    **{f"GET /jobs/<slug>/search/<attempt>/{step}": Rule(TEAM, query="words=iteration") for step in ("", "step/")},
    "GET /jobs/<slug>/timeline/<attempt>/trace.json.gz": Rule(TEAM),
    "GET /jobs/<slug>/flows/<attempt>/<flow>/": Rule(TEAM, is_bare=True),
    "GET /jobs/<slug>/flows/<attempt>/<flow>/<form>": Rule(TEAM, is_bare=True),
    "POST /jobs/<slug>/flows-attach/": replace(post(TEAM, "upload", job="secret-job"), is_bare=True),
    "POST /jobs/<slug>/flows-detach/<act>/": replace(post(TEAM, "upload"), is_bare=True),
    "POST /jobs/<slug>/diagnose/": post(TEAM, "upload"),
    "GET /jobs/<slug>/describe/": Rule(TEAM, "upload"),
    "POST /jobs/<slug>/move/": post(TEAM, "move", cluster="default"),
    "POST /jobs/<slug>/describe/": post(TEAM, "upload", name="x", outcome="unknown"),
    "GET /jobs/<slug>/delete/": Rule(TEAM, "upload"),
    "POST /jobs/<slug>/delete/": post(OWNER, "upload"),
    "POST /jobs/<slug>/files/<pk>/delete/": post(TEAM, "upload"),
    "GET /metrics": Rule(OPEN),
    "GET /nodes/": Rule(ALL),
    "GET /nodes/<name>/": Rule(TEAM),
    "GET /replay/": Rule(ALL),
    "GET /rules/": Rule(ALL),
    "GET /running/": Rule(ALL),
    "GET /jobs/<slug>/live/<attempt>/": Rule(TEAM),
    "GET /jobs/<slug>/live/<attempt>/lines/": Rule(TEAM),
    "GET /jobs/<slug>/live/<attempt>/state/": Rule(TEAM),
    "GET /rules/<pk>/": Rule(ALL, "administer"),
    "GET /rules/new/": Rule(ALL, "administer"),
    "GET /sign-in/": Rule(OPEN),
    "POST /demonstration/remove/": post(ALL, "demonstration"),
    "GET /sign-in/code/": Rule(OPEN),
    "GET /sign-in/forgotten/": Rule(OPEN),
    "GET /sign-in/forgotten/sent/": Rule(OPEN),
    "GET /sign-in/new-password/<uidb36>/<key>/": Rule(OPEN),
    "GET /sign-in/new-password/done/": Rule(OPEN),
    "GET /people/": Rule(ALL, "organise"),
    "POST /people/": post(ALL, "administer", username="new-person", roles=["viewer"]),
    "GET /people/<username>/": Rule(ALL, "organise"),
    "POST /people/<username>/": post(ALL, "administer", is_active="on"),
    "GET /teams/": Rule(ALL, "organise"),
    "POST /teams/": post(ALL, "administer", slug="new-team"),
    "GET /clusters/": Rule(ALL, "organise"),
    "POST /clusters/": post(ALL, "administer", slug="new-cluster", gpus_per_node="8"),
    "POST /samples/load/": post(ALL, "upload"),
    "POST /sign-out/": post(ALL),
    "GET /statistics/": Rule(ALL, "statistics"),
    "GET /statistics/<table>.csv": Rule(ALL, "statistics"),
    "GET /statistics/planning/": Rule(ALL, "statistics"),
    "POST /undo/last/": post(ALL, "review"),
    "POST /undo/<request_id>/": post(ALL, "review"),
    "GET /upload/": Rule(ALL, "upload"),
    "POST /upload/": post(ALL, "upload", name="x", outcome="unknown"),
    "POST /views/": post(ALL, name="x", query="is:unreviewed"),
    "POST /views/<slug>/delete/": post(ALL),  # one of another person is left alone
    "GET /incidents/<number>/summary/": Rule(TEAM, is_bare=True),
    "POST /incidents/<number>/summary/make/": Rule(TEAM, "review", is_bare=True),
    "GET /incidents/<number>/tickets/": Rule(TEAM),
    "POST /incidents/<number>/ticket/": post(TEAM, "review", route="0"),
    "GET /nodes/<name>/tickets/": Rule(TEAM),
    "POST /nodes/<name>/ticket/": post(TEAM, "review", route="0"),
    "GET /routes/": Rule(ALL, "routes"),
    "GET /routes/new/<kind>/": Rule(ALL, "routes"),
    "POST /routes/new/<kind>/": post(ALL, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "GET /routes/<pk>/": Rule(OWNER, "routes"),
    "POST /routes/<pk>/": post(OWNER, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "POST /routes/<pk>/act/": post(OWNER, "routes", act="delete"),
    "GET /routes/<pk>/deliveries/<delivery>/": Rule(OWNER, "routes"),
    "POST /routes/<pk>/deliveries/<delivery>/redeliver/": post(OWNER, "routes"),
    # the API, by operation
    "incidents_list": Rule(ALL),
    "incidents_read": Rule(TEAM),
    "incidents_findings": Rule(TEAM),
    "incidents_decisions_list": Rule(TEAM),
    "incidents_decisions_create": post(TEAM, "review", claim="category", word="confirm"),
    "incidents_decisions_undo": post(TEAM, "review"),
    "jobs_list": Rule(ALL),
    "jobs_create": post(ALL, "upload", name="x"),
    "jobs_read": Rule(TEAM),
    "jobs_change": post(TEAM, "upload", outcome="failed"),
    "jobs_put": post(ALL, "upload", outcome="failed"),  # others get a job of their own in their cluster
    "jobs_move": post(TEAM, "move", cluster="default"),
    "jobs_delete": Rule(OWNER, "upload"),
    "jobs_artifacts": Rule(TEAM),
    "artifacts_put": Rule(TEAM, "upload", query="path=b.log"),
    "files_put": Rule(ALL, "upload"),  # as jobs_put
    "jobs_diagnose": post(TEAM, "upload"),
    "jobs_restart": Rule(TEAM),
    "jobs_runs": Rule(TEAM),
    "runs_cancel": post(TEAM, "upload"),
    "runs_retry": post(TEAM, "upload"),
    "jobs_uploads": Rule(TEAM),
    "jobs_wanted": Rule(TEAM),
    "me_read": Rule(ALL),
    "me_token_revoke": Rule(ALL),
    "search_suggest": Rule(ALL, query="q=node:gpu&cursor=8"),
    "statistics_read": Rule(ALL, "statistics"),
    "lines_push": Rule(ALL, "upload"),
    "node_events_push": Rule(ALL, "upload"),
    "uploads_create": Rule(TEAM, "upload"),
    "uploads_append": Rule(TEAM, "upload"),
    "uploads_delete": Rule(TEAM, "upload"),
    "uploads_offset": Rule(TEAM),
    "uploads_capabilities": Rule(ALL),
    "routes_list": Rule(ALL, "routes"),
    "routes_create": post(ALL, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "routes_read": Rule(OWNER, "routes"),
    "routes_change": post(OWNER, "routes", is_active=False),
    "routes_delete": Rule(OWNER, "routes"),
    "routes_deliveries": Rule(OWNER, "routes"),
    "routes_redeliver": post(OWNER, "routes"),
    "incidents_tickets": Rule(TEAM),
    "incidents_ticket_make": post(TEAM, "review", route=1_000_000),
    "nodes_tickets": Rule(TEAM),
    "nodes_ticket_make": post(TEAM, "review", route=1_000_000),
    # its signature says who it is: PagerDuty, never a person
    "routes_pagerduty": Rule(ALL, is_bare=True),
    "routes_ping": post(OWNER, "routes"),
    "routes_rotate": post(OWNER, "routes"),
    "setup_ensure": post(ALL, "administer", teams=[]),
}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, methods in yamls.read(SCHEMA.read_text())["paths"].items()
    for method, operation in methods.items()
}
