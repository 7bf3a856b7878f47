"""A guided tour of tiltyard on a directory of its own, for someone who has never heard of Lance."""

import os

# Lance reads this when it is imported. Its warnings are for developers.
os.environ.setdefault("LANCE_LOG", "error")
