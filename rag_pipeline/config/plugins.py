"""Load methods and models of this package and of other packages from entry points.

A package lists its settings classes in its pyproject.toml, in one group per kind:

    [project.entry-points."rag_pipeline.chunkings"]
    paragraphs = "my_package:ParagraphChunking"

The corpus file names the entry point (`method: paragraphs`). The first read of a corpus file
imports the packages. A broken package stops only the corpora that use it.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import get_args

from pydantic import GetCoreSchemaHandler
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from rag_pipeline.config.settings import Settings
from rag_pipeline.errors import ConfigError
from rag_pipeline.imports import broken, load_group, origin


@dataclass(frozen=True, slots=True)
class VariantsOf:
    """A mark of an annotated settings class as the union of a group's classes.

    The setting `key` selects the class. Its type in each class is `Literal["the name"]`. The first
    use of a model with such a field builds the union. So the model needs `defer_build=True`, and
    `default_factory` for a default. All classes of the group must be subclasses of `among`. The
    union contains only subclasses of the annotated class. A mapping without the `key` selects the
    class `default`, if it is set.
    """

    group: str
    key: str
    among: type[Settings] | None = None
    default: str | None = None

    def __get_pydantic_core_schema__(
        self, source: type[Settings], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the union of the group's settings classes, selected by the key."""
        classes, refused = self._sorted_out(source)
        choices: dict[Hashable, CoreSchema] = {}
        for name, each in classes.items():
            try:
                choices[name] = handler.generate_schema(each)
            except (PydanticUserError, PydanticUndefinedAnnotation) as error:
                wrong = f"{each.__name__}: {error.message.splitlines()[0]}"
                refused[name] = ConfigError(f"{origin(self.group, name)}: {wrong}")
        choices |= {name: _refusing(error) for name, error in refused.items()}
        union = core_schema.tagged_union_schema(choices, self.key)
        if self.default is None:
            return union
        return core_schema.no_info_before_validator_function(self._with_key, union)

    def _with_key(self, given: object) -> object:
        if isinstance(given, Mapping) and self.key not in given:
            return {self.key: self.default, **dict[str, object](given)}
        return given

    def classes(self, kind: type = Settings) -> Mapping[str, type[Settings]]:
        """Return the group's valid settings classes by name."""
        return self._sorted_out(kind)[0]

    def _sorted_out(self, kind: type) -> tuple[dict[str, type[Settings]], dict[str, ConfigError]]:
        among = self.among or kind
        classes = {n: c for n, c in load_group(self.group, among).items() if issubclass(c, kind)}
        refused = {n: e for n, e in broken(self.group, among).items() if n not in classes}
        for name, each in classes.items():
            field = each.model_fields.get(self.key)
            missing = ", ".join(sorted(each.__abstractmethods__))
            wrong = f"does not define {missing}" if missing else ""
            if field is None or get_args(field.annotation) != (name,):
                literal = f'`{self.key}: Literal["{name}"]`'
                wrong = f"must have the setting {literal}, the name of its entry point"
            if wrong:
                refused[name] = ConfigError(f"{origin(self.group, name)}: {each.__name__} {wrong}")
        return {n: c for n, c in classes.items() if n not in refused}, refused


def _refusing(error: ConfigError) -> CoreSchema:
    """Return a schema that refuses the corpus files that use a broken plugin."""

    def refuse(_: object) -> None:
        raise PydanticCustomError("broken_plugin", "{reason}", {"reason": str(error)})

    return core_schema.no_info_before_validator_function(refuse, core_schema.any_schema())
