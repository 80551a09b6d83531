"""`tickwheel mcp`: a server of the Model Context Protocol, for assistants.

An assistant gets tools that find and explain, and on request some that act. Each call becomes
requests to the API of an admin, with somebody's API token: an assistant can see and do what that
token can, and nothing else. Modules here know the library `mcp`, the rest of the command line does
not.
"""
