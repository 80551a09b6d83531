"""A FastAPI service whose jobs run on its own event loop, alongside its requests.

With TICKWHEEL_ADMINS and TICKWHEEL_TOKEN set:

    uvicorn fastapi_app:app
"""

from __future__ import annotations

from fastapi import FastAPI

from tickwheel_executor import Executor, Run

executor = Executor("shop")
app = FastAPI(lifespan=executor.lifespan)

prices = {"tea": 4.0, "coffee": 6.0}


@executor.handler("raise-prices")
async def raise_prices(run: Run, percent: float) -> dict[str, float]:
    """Raise all prices."""
    for article, price in prices.items():
        prices[article] = round(price * (1 + percent / 100), 2)
        run.log.info("%s: %.2f", article, prices[article])
    return prices


@app.get("/prices")
async def show_prices() -> dict[str, float]:
    return prices
