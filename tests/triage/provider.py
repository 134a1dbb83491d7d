"""A small OpenID Connect provider: metadata, authorisation, token, user information. It checks like a real one."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt


@dataclass
class Provider:
    url: str
    #: claims of the signed-in person
    person: dict[str, Any] = field(default_factory=dict)
    #: code -> the parameters of its request
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    audience: str = "faultline"

    def authorise(self, location: str) -> str:
        """What the browser does there: returns the address of the redirect."""
        asked = {key: values[0] for key, values in parse_qs(urlsplit(location).query).items()}
        assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_hex(8)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            asked is None
            or form.get("client_secret") != "hush"
            or asked["code_challenge"] != challenge.rstrip(b"=").decode()
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {**self.person, "iss": self.url, "aud": self.audience, "iat": now, "exp": now + 60}
        token = jwt.encode(claims, "k" * 32, algorithm="HS256", headers={"kid": "1"})
        return 200, {"access_token": "at", "token_type": "Bearer", "expires_in": 60, "id_token": token}


@contextmanager
def providing() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/.well-known/openid-configuration"):
                names = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
                known = {f"{name}_endpoint": f"{provider.url}/{path}" for name, path in names.items()}
                self._json(
                    200,
                    {
                        **known,
                        "issuer": provider.url,
                        "jwks_uri": f"{provider.url}/jwks",
                        "token_endpoint_auth_methods_supported": ["client_secret_post"],
                    },
                )
            elif self.path == "/userinfo" and self.headers["Authorization"] == "Bearer at":
                self._json(200, provider.person)
            else:
                self._json(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._json(*provider.token({key: values[0] for key, values in parse_qs(body).items()}))

        def _json(self, status: int, data: dict[str, Any]) -> None:
            raw = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = Provider(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield provider
    server.shutdown()
    server.server_close()
