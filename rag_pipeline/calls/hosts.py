"""A host -> whether it is this machine itself."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
