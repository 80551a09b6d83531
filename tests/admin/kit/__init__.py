"""Ways to stand an admin up in a test, and what to do with it there.

- `engine`: an engine on a database, with sockets that only remember; `rows` puts jobs and runs
  there, `messages` is what nodes answer
- `services`: every service on a database
- `served`: console and API over real HTTP, with clients that are logged in
- `several_admins`: some of them on one database, behind a proxy
- `oidc`: two admins that let people in by a provider
- `declared_code`: processes that declare jobs; `routes`: every route, and who may ask it
- `clock`: time that tests turn; `work_counter`: what a database is asked
"""
