"""`python -m tickwheel_executor.agent`: the same as `tickwheel-agent`."""

from .program import main

if __name__ == "__main__":
    main()
