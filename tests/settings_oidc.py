"""Settings for tests of sign-in with a provider: tests.settings with a provider.

The test that starts them sets the provider's address in ``FAULTLINE_OIDC_ISSUER``.
"""

import os

os.environ["FAULTLINE_OIDC_CLIENT_ID"] = "faultline"
os.environ["FAULTLINE_OIDC_CLIENT_SECRET"] = "hush"
os.environ["FAULTLINE_OIDC_NAME"] = "Example Login"
os.environ["FAULTLINE_OIDC_ROLES"] = "engineer=gpu-users,admin=gpu-admins"
os.environ["FAULTLINE_OIDC_DEFAULT_ROLE"] = ""
os.environ["FAULTLINE_OIDC_TEAMS"] = "red=ml-red,blue=ml-blue"

from tests.settings import *  # noqa: F403
