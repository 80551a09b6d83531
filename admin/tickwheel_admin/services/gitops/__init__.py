"""Objects as files: plans, their application and exports."""
