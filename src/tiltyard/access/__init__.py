"""Who may do what at a server: principals with roles, the API keys that prove them, and sessions.

Independent of HTTP and of the catalog; the REST server and the console both use it.
"""

from tiltyard.access.keys import LOCAL, Key, Keyring, NewKey, Principal, Role, Sessions

__all__ = ["LOCAL", "Key", "Keyring", "NewKey", "Principal", "Role", "Sessions"]
