"""What every job needs, whatever it is about: tables, the two engines, a Spark session, a folder of results.

``shell`` is what a job is wrapped in. ``engine`` is the interface of the two places where steps run.
"""
