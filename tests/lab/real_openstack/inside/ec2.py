# mypy: ignore-errors
"""ec2-api, adapted as it starts to a cloud of Debian 12.

keystone 22 answers /v3/ec2tokens to services alone, so the service's own token goes along; and
there are no volumes, because there is no cinder.
"""

import eventlet

eventlet.monkey_patch()

import collections  # noqa: E402 - what follows must come patched
import sys  # noqa: E402
import types  # noqa: E402

import ec2api.api  # noqa: E402
import ec2api.api.instance  # noqa: E402
import ec2api.clients  # noqa: E402
from ec2api.cmd.api import main  # noqa: E402
from keystoneauth1 import loading  # noqa: E402

_plain = ec2api.api.requests.request
_settings = (ec2api.clients.CONF, ec2api.clients.GROUP_AUTHTOKEN)


def request(method, url, **more):
    if "ec2tokens" in url:
        auth = loading.load_auth_from_conf_options(*_settings)
        session = loading.load_session_from_conf_options(*_settings, auth=auth)
        more.setdefault("headers", {})["X-Auth-Token"] = session.get_token()
    return _plain(method, url, **more)


ec2api.api.requests = types.SimpleNamespace(request=request)
ec2api.api.instance._get_os_volumes = lambda _: collections.defaultdict(list)
sys.argv[0] = "ec2-api"
sys.exit(main())
