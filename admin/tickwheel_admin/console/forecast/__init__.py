"""What if: forecasts of changes that are not saved."""
