"""A configuration file to begin with: `tickwheel-agent --example`."""

EXAMPLE = """\
# Configuration of tickwheel-agent. A section that is missing offers nothing.
# All settings: docs/agent.md. After a change: tickwheel-agent --check, and restart the agent.

[agent]
admins = ["http://127.0.0.1:8500"]   # one is enough, the others are learned from it
executor = "my-machine"              # as it was made in the console
token_file = "/etc/tickwheel/agent.token"
# ca_file = "/etc/tickwheel/ca.pem"  # authority of the admins' certificates
# client_cert = "/etc/tickwheel/node.pem"              # for admins with tls_client_ca,
# client_key = "/etc/tickwheel/node.key"               # and its key
slots = 8                            # runs at once
# name = "crm-1"                     # of this node; host and process id when omitted
# labels = { zone = "eu-1" }
# spool_dir = "/var/lib/tickwheel"   # where results wait until an admin has them

[children]                           # of all scripts and commands
# run_as = "jobs"                    # their user; the agent has to run as root
memory_mb = 1024                     # of each run
processes = 200
# cpu_percent = 100                  # of one core; needs cgroups
# environment = { REGION = "eu" }    # for every child
# pass_environment = ["JAVA_HOME"]   # of the agent's own

[script]
languages = ["shell", "python"]      # and node, php, powershell, perl, ruby
# interpreters = { python = ["/opt/venv/bin/python", "-u"], lua = ["/usr/bin/lua"] }
# hashes_file = "/etc/tickwheel/scripts.sha256"        # only these scripts,
# public_keys = ["/etc/tickwheel/scripts.pem"]         # or those signed with one of these keys

# [command]
# programs = ["/usr/bin/rsync", "/opt/jobs/"]          # or ["*"]
# directories = ["/srv/data"]                          # where they may run

# [http]                               # docs/agent-handlers.md, also for the next two
# private = ["intranet.example.com", "10.1.0.0/16"]    # allowed although not public

# [sql.connections.crm]
# url = "postgresql://db.example.com/crm"
# user = "jobs"
# password_file = "/etc/tickwheel/crm.password"

# [file.roots]
# logs = "/var/log/crm"
"""
