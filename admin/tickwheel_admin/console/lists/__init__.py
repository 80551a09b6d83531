"""What lists share: filter boxes, tabs, saved views, changes of many things."""
