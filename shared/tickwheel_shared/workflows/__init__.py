"""What workflows mean: values, conditions, and which steps begin. Server and test kit agree."""
