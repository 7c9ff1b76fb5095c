"""What the OpenAPI document says may be sent can be sent: random bodies, none of which breaks the server.

A bounded number of cases here; more with ``ANYORDER_SCHEMA_CASES=200``.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

CASES = int(os.environ.get("ANYORDER_SCHEMA_CASES", "4"))
PATHS = ["/fill", "/generate", "/score", "/joint", "/translate", "/tokens", "/v1/completions", "/infill", "/fill-mask"]


@pytest.fixture(scope="module")
def document(client):
    # Here and not above: its import takes a second, which every process that collects the tests would pay.
    schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed (extra dev)")
    return schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")


@pytest.mark.parametrize("path", PATHS)
def test_no_body_breaks_the_server(document, path):
    @settings(max_examples=CASES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=document[path]["POST"].as_strategy())
    def check(case: Any) -> None:
        response = case.call(timeout=120)
        # Some bodies ask for more than the server has time for; what they get is a sentence, too.
        assert response.status_code < 500 or response.status_code == 504, response.text
        if response.status_code >= 400:
            assert response.json()["error"]["message"]

    check()


def test_every_endpoint_is_in_the_document(client):
    assert set(PATHS) <= client.get("/openapi.json").json()["paths"].keys()
