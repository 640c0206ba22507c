"""Which HTTPS certificates a meter trusts."""

from __future__ import annotations

import ssl
from pathlib import Path

from ullage.energy.base import FaultError


def trust(ca_file: Path | None, *, insecure: bool = False) -> ssl.SSLContext:
    """Those of the file, else of the system; `insecure`: any. FaultError (denied)."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise FaultError("denied", f"ca_file {ca_file}: {error}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
