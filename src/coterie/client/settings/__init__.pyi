from coterie.client.secret import MASK as MASK
from coterie.client.settings.collected import (
    CollectedSettings as CollectedSettings,
    SettingValue as SettingValue,
    Source as Source,
    effective_settings as effective_settings,
    nearest as nearest,
)
from coterie.client.settings.keys import (
    ALIASES as ALIASES,
    KEYS as KEYS,
    Kind as Kind,
    canonical as canonical,
    is_private_key as is_private_key,
    is_secret as is_secret,
)
from coterie.client.settings.portable import PortableSettings as PortableSettings
from coterie.client.settings.target import (
    Target as Target,
    make_target as make_target,
)
