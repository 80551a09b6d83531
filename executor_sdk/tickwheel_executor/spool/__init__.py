"""Results that wait to be delivered."""
