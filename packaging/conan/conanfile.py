"""Builds tvec with meson, as a Conan 2 package: conan create packaging/conan"""
import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Tvec(ConanFile):
    name = "tvec"
    license = "MIT"
    description = "Timer wheel for event loops"
    topics = ("timer", "timer-wheel", "io-uring", "event-loop")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "uring": [True, False]}
    default_options = {"shared": False, "fPIC": True, "uring": True}
    package_type = "library"
    implements = ["auto_shared_fpic"]

    def set_version(self):
        header = Path(self.recipe_folder, "..", "..", "include", "tvec", "version.hpp").read_text()
        self.version = re.search(r'TVEC_VERSION_STRING "(.*)"', header).group(1)

    def export_sources(self):
        root = Path(self.recipe_folder, "..", "..")
        for pattern in ("meson*", "LICENSE", "cmake/*", "include/*", "src/*", "support/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        basic_layout(self)

    def requirements(self):
        if self.options.uring:
            self.requires("liburing/[>=2.3]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("the library needs Linux: the single header does not")

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0]")
        self.tool_requires("pkgconf/[>=2.0]")

    def generate(self):
        PkgConfigDeps(self).generate()
        toolchain = MesonToolchain(self)
        enabled = {True: "enabled", False: "disabled"}
        toolchain.project_options["uring"] = enabled[bool(self.options.uring)]
        for part in ("tests", "examples", "bench"):
            toolchain.project_options[part] = "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        Meson(self).install()

    def package_info(self):
        self.cpp_info.components["tvec"].libs = ["tvec"]
        self.cpp_info.components["tvec"].set_property("pkg_config_name", "tvec")
        if self.options.uring:
            self.cpp_info.components["uring"].libs = ["tvec-uring"]
            self.cpp_info.components["uring"].requires = ["tvec", "liburing::liburing"]
            self.cpp_info.components["uring"].set_property("pkg_config_name", "tvec-uring")
