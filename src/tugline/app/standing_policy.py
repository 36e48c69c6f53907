"""The policy that a configuration begins with."""

from tugline.app.config import real_folder
from tugline.config.load import Config
from tugline.rules.permission import Policy


def policy_of(config: Config) -> Policy:
    """The policy that a session with this configuration would begin with."""
    permissions = config.settings.permissions
    return Policy(
        mode=permissions.default_mode,
        allow=config.allow,
        ask=config.ask,
        deny=config.deny,
        directories=(config.cwd, *map(real_folder, permissions.additional_directories)),
        cwd=config.cwd,
        home=config.home,
        project_root=config.project_root,
    )
