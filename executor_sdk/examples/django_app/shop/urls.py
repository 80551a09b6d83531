"""One page: how often this browser has been here."""

from django.http import HttpRequest, JsonResponse
from django.urls import path


def index(request: HttpRequest) -> JsonResponse:
    request.session["visits"] = request.session.get("visits", 0) + 1
    return JsonResponse({"visits": request.session["visits"]})


urlpatterns = [path("", index)]
