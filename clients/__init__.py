"""The client library: Producer, Consumer and Admin, for asyncio and for synchronous code."""
