"""Canaille, a real OpenID Provider, on loopback with one client and two people; run as a program.

python -m tests.support.live.canaille_server PORT REDIRECT_URI
"""

import sys

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server


def main(port: int, redirect_uri: str, client_id: str, secret: str, password: str) -> None:
    key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
    app = create_app(
        {
            "SECRET_KEY": "of this test only",
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "TESTING": False,
            "WTF_CSRF_ENABLED": True,
            "CANAILLE": {"DATABASE": "memory", "LOGGING": None, "SMTP": None},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)], "REQUIRE_NONCE": True},
        }
    )
    with app.app_context(), Backend.instance.session():
        people = [("anna", "admins"), ("otto", "others")]
        for name, group in people:
            user = models.User(
                user_name=name, family_name=name.title(), formatted_name=name.title(),
                emails=[f"{name}@example.org"], password=password,
            )  # fmt: skip
            Backend.instance.save(user)
            Backend.instance.save(models.Group(display_name=group, members=[user]))
        client = models.Client(
            client_id=client_id, client_secret=secret, client_name="domo",
            client_uri=redirect_uri.rpartition("/login")[0], redirect_uris=[redirect_uri],
            grant_types=["authorization_code"], response_types=["code"],
            scope=["openid", "profile", "email", "groups"],
            token_endpoint_auth_method="client_secret_basic",
        )  # fmt: skip
        Backend.instance.save(client)
        client.audience = [client]
        Backend.instance.save(client)
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
