"""Routes from the command line: what the page *Routes* shows and does."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.models import Node
from ingest.refusals import Refused
from ingest.roles import can
from triage.models import Delivery, Incident, Route
from triage.selectors.incidents import incident_for
from triage.selectors.nodes import nodes_by_name
from triage.selectors.routes import with_counts
from triage.services import outbox
from triage.services import routes as services
from triage.services.tickets import ticket_ask


class Command(BaseCommand):
    help = "List, test or delete routes, make tickets, and send failed messages again (/help/integrations/)."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("list", help="all routes and their health")
        ticket = acts.add_parser("ticket", help="make a ticket of an incident or a node by a route to a tracker")
        ticket.add_argument("route", type=int)
        about = ticket.add_mutually_exclusive_group(required=True)
        about.add_argument("incident", type=int, nargs="?")
        about.add_argument("--node", metavar="NAME")
        ticket.add_argument("--cluster", default="", help="of the node, if several have its name")
        ticket.add_argument("--by", required=True, metavar="USER")
        for act in ("test", "redeliver", "delete"):
            acts.add_parser(act).add_argument("route", type=int)

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            if act == "list":
                self._list()
            elif act == "ticket":
                self._ticket(options)
            else:
                self._one(act, options["route"])
        except Refused as refusal:
            raise CommandError(str(refusal)) from refusal

    def _list(self) -> None:
        row: Any  # with the counts
        for row in with_counts(Route.objects.all()):
            state = "on" if row.is_active else f"off: {row.problem or 'by a person'}"
            counts = f"{row.waiting} waiting, {row.lost} given up"
            self.stdout.write(f"{row.pk} {row.kind} {row.name}: {services.address_shown(row)} ({state}; {counts})")

    def _ticket(self, options: dict[str, Any]) -> None:
        person = get_user_model().objects.filter(username=options["by"], is_active=True).first()
        name: str = options["node"] or ""
        about: Incident | Node | None = None
        if person is not None and name:
            about = next(iter(nodes_by_name(person, name, cluster=options["cluster"])), None)
        elif person is not None:
            about = incident_for(person, options["incident"])
        if person is None or about is None:
            what = f"a node {name}" if name else f"an incident #{options['incident']}"
            raise CommandError(f"There is no user {options['by']} who sees {what}.")
        if not can(person, "review"):
            raise CommandError(f"{options['by']} may not review.")
        delivery = ticket_ask(route_id=options["route"], about=about, by=person)
        self.stdout.write(f"A ticket is made by {delivery.route.name}; the page of what it is about links it.")

    def _one(self, act: str, pk: int) -> None:
        route = Route.objects.filter(pk=pk).first()
        if route is None:
            raise CommandError(f"There is no route {pk}.")
        if act == "test":
            outbox.ping(route=route)
            self.stdout.write("A worker sends the test now; the route's page shows the answer.")
        elif act == "redeliver":
            lost = list(route.deliveries.filter(state=Delivery.State.GIVEN_UP).order_by("created_at"))
            for delivery in lost:
                outbox.redeliver(delivery=delivery)
            self.stdout.write(f"{len(lost)} messages are sent again.")
        else:
            services.route_delete(route=route, by=route.owner)
            self.stdout.write("Deleted.")
