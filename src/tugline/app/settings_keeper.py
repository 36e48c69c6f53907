"""Where what a person said "always" to is kept, and what it takes to count there."""

import os

from tugline.app.config import real_folder
from tugline.config.load import Config
from tugline.config.trust import TrustStore
from tugline.protocol.errors import ConfigError
from tugline.protocol.permissions import Destination, PermissionUpdate
from tugline.protocol.trust import TrustItem
from tugline.rules.trust import setting_items

FILES = {"localSettings": ".tugline/settings.local.json", "projectSettings": ".tugline/settings.json"}
"""The project's files; git ignores the first."""


class SettingsKeeper:
    """Writes into the settings files of a session. What is written into a project's files on a person's word is
    approved with it."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def file(self, destination: Destination) -> str:
        """The file, where a change there would count in the next session."""
        if destination == "session":
            return ""
        if destination == "userSettings":
            return self._config.folders.user_settings
        if not self._config.trusted:
            return ""
        return os.path.join(self._config.project_root, *FILES[destination].split("/"))

    def keep(self, update: PermissionUpdate) -> None:
        """Write it there. Raises `ConfigError`."""
        from tugline.config.save import save  # noqa: PLC0415  imported here: start-up cost

        path = self.file(update.destination)
        if not path:
            raise ConfigError("this folder is not trusted, so it counts for this session only (tugline trust).")
        save(path, update, ignored=update.destination == "localSettings")
        if update.destination in FILES and self._config.trust.grounds == "approved":
            approved = dict.fromkeys(_items(FILES[update.destination], update), True)
            if approved:
                TrustStore(self._config.folders.trust).trust(self._config.project_root, approved)

    def folder(self, path: str) -> str:
        """The real folder of a path; a relative one begins where the session did. Raises `UsageError`."""
        return real_folder(os.path.join(self._config.cwd, os.path.expanduser(path)))


def _items(source: str, update: PermissionUpdate) -> list[TrustItem]:
    """What the change adds to the file that takes an approval."""
    match update.kind:
        case "addRules" | "replaceRules":
            found = setting_items(source, ("permissions", update.behavior), update.rules)
        case "setMode":
            found = setting_items(source, ("permissions", "defaultMode"), update.mode)
        case "addDirectories":
            found = setting_items(source, ("permissions", "additionalDirectories"), update.directories)
        case _:
            return []
    return [item for _, item in found]
