"""Suites for people who write a provider, a tool or a workspace of their own.

Subclass a suite in a test module with a name that pytest collects, and give it what it asks for:

    class TestMyProvider(ProviderConformance):
        def provider(self, server):
            return MyProvider(base_url=server.url)

The tests are coroutines: run them with pytest-asyncio (`asyncio_mode = "auto"`) or anyio's plugin.
"""

from tugline.testing.conformance.provider import ProviderConformance
from tugline.testing.conformance.tool import ToolConformance
from tugline.testing.conformance.workspace import WorkspaceConformance

__all__ = ["ProviderConformance", "ToolConformance", "WorkspaceConformance"]
