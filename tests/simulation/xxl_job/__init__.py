"""The move of jobs from XXL-JOB and back, in virtual time over XXL-JOB's tables on a real MariaDB.

`standin` does what XXL-JOB's admins do, `drill` lets them and our commands crash at every step, and
`books` holds who fired what against what was due. Our own side is real: services, planner, SQLite.
"""
