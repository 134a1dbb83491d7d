"""Reads objects of a Kubernetes cluster: as a pod with its service account, by kubectl, or from a file.

Only lists are read, with the rights ``get`` and ``list``. A kind that the cluster does not have, or that the account
may not read, is left out, and said once.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Optional, Protocol
from urllib.parse import urlencode

#: group and version, kind, plural; alternatives of one kind in turn, the first that answers
KINDS = (
    (("api/v1", "Pod", "pods"),),
    (("api/v1", "Node", "nodes"),),
    (("apis/events.k8s.io/v1", "Event", "events"),),
    (("apis/batch/v1", "Job", "jobs"),),
    (("apis/jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),),
    (("apis/trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),),
    (
        ("apis/kueue.x-k8s.io/v1beta2", "Workload", "workloads"),
        ("apis/kueue.x-k8s.io/v1beta1", "Workload", "workloads"),
    ),
)
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S = 60.0
#: objects of one list request; objects and bytes of one kind
_PAGE_SIZE = 500
_MAX_OBJECTS = 200_000
_MAX_BYTES = 512 << 20


class Api(Protocol):
    """``objects``: all that is known now; ``is_complete``: whether what is missing does not exist any more."""

    @property
    def is_complete(self) -> bool: ...
    def objects(self) -> list[Any]: ...


class RecordedObjects:
    """Objects of a file, as ``kubectl get … -o json`` writes them: one list, one object, or several in turn."""

    is_complete = False

    def __init__(self, path: str) -> None:
        self._path = path

    def objects(self) -> list[Any]:
        text = sys.stdin.read() if self._path == "-" else Path(self._path).read_text(encoding="utf-8")
        return parse_objects(text)


def parse_objects(text: str) -> list[Any]:
    """The objects in JSON text. Raises ``ValueError`` if it is none."""
    objects: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError("the objects are nested too deeply") from error
        items = value.get("items") if isinstance(value, dict) else None
        objects += items if isinstance(items, list) else [value]
    return objects


class Cluster:
    """The cluster of this pod, or the one of kubectl. Requests go one after another; the token is read each time."""

    def __init__(self, namespace: str, note: Callable[[str], None], account: Path = _ACCOUNT) -> None:
        self._namespace, self._note, self._account = namespace, note, account
        self._noted: set[str] = set()
        self._host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        self._port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self.is_complete = False

    def objects(self) -> list[Any]:
        """Everything of the known kinds. A kind that cannot be read is left out."""
        found: list[Any] = []
        self.is_complete = True
        for versions in KINDS:
            for version in versions:
                try:
                    rows = self._list(*version)
                except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
                    self._note_once(version[1], str(error))
                    self.is_complete = False
                    break
                if rows is not None:
                    found += rows
                    break
        return found

    def _list(self, group: str, kind: str, plural: str) -> Optional[list[Any]]:  # noqa: UP045
        """The objects of one kind; None if the cluster does not know it. Raises for what else goes wrong."""
        if not self._host:
            return self._by_kubectl(group, kind, plural)
        space = f"/namespaces/{self._namespace}" if self._namespace and kind != "Node" else ""
        found: list[Any] = []
        token, size = "", 0
        while True:
            query = urlencode({"limit": _PAGE_SIZE, **({"continue": token} if token else {})})
            status, body = self._get(f"/{group}{space}/{plural}?{query}")
            if status == 404:
                return None
            if status == 410 and token:  # the list changed for too long: the next look reads it from the start
                return found
            if status != 200:
                raise ValueError(f"the API answers {status}")
            said = json.loads(body)
            size += len(body)
            found += [{"kind": kind, **row} for row in said.get("items") or () if isinstance(row, dict)]
            token = str((said.get("metadata") or {}).get("continue") or "")
            if len(found) > _MAX_OBJECTS or size > _MAX_BYTES:
                raise ValueError(f"there are more than {_MAX_OBJECTS:,} of them: name a namespace (--namespace)")
            if not token:
                return found

    def _get(self, path: str) -> tuple[int, bytes]:
        tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        connection = http.client.HTTPSConnection(self._host, int(self._port), timeout=_TIMEOUT_S, context=tls)
        try:
            token = (self._account / "token").read_text().strip()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_BYTES)
        finally:
            connection.close()

    def _by_kubectl(self, group: str, kind: str, plural: str) -> Optional[list[Any]]:  # noqa: UP045
        if shutil.which("kubectl") is None:
            raise ValueError("this is no pod of a cluster, and kubectl is not installed")
        full = plural if group == "api/v1" else f"{plural}.{'.'.join(reversed(group.split('/')[1:]))}"
        where = ["-n", self._namespace] if self._namespace else ["-A"]
        done = subprocess.run(  # noqa: S603  # fixed command
            ["kubectl", "get", full, "-o", "json", *([] if kind == "Node" else where)],  # noqa: S607
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            if "the server doesn't have a resource type" in said or "could not find the requested resource" in said:
                return None
            raise ValueError(said.splitlines()[-1] if said else f"kubectl ended with {done.returncode}")
        return parse_objects(done.stdout.decode("utf-8", "replace"))

    def _note_once(self, kind: str, why: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(f"{kind}s of the cluster cannot be read ({why})")
