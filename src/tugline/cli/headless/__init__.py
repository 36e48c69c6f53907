"""One prompt without a terminal: text, json, stream-json."""
