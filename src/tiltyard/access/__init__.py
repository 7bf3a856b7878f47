"""Who may do what at a server: roles, the keys that prove them, and sessions that stand for keys.

Nothing here knows of HTTP or of a catalog. The REST server and the console ask the same door.
"""

from tiltyard.access.keyring import Keyring
from tiltyard.access.keys import Key, NewKey
from tiltyard.access.roles import LOCAL, Principal, Role
from tiltyard.access.sessions import Sessions

__all__ = ["LOCAL", "Key", "Keyring", "NewKey", "Principal", "Role", "Sessions"]
