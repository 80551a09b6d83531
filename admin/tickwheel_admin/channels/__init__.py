"""Tells people of alarms: by e-mail, webhooks, chat bots and the services of Apprise."""
