"""Everything that touches Spark's JVM: its plans and expressions, through py4j.

No module outside of this package uses py4j or an attribute like `_jvm` or `_jdf`; a test sees to
it. `jvm.py` lists each internal of Spark that is used, why, and the version it was seen with.
"""
