# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""The Conan 2 recipe of the source tree: `conan create . -s compiler.cppstd=20`.

The option system=True takes Boost, spdlog and rdma-core's headers from the system. See doc/packages.md. The recipe for
Conan's public index is packaging/conan-center/recipes/boost_rdma."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt, Dnf, PacMan

required_conan_version = ">=2.0.15"


class BoostRdmaConan(ConanFile):
    name = "boost_rdma"
    description = "RDMA for Boost.Asio, on RDMA NICs and on a software device"
    license = "BSL-1.0"
    topics = ("rdma", "infiniband", "roce", "verbs", "asio", "networking")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        # The source of rdma-core's headers, which only the build needs. libibverbs is loaded at run time.
        "with_rdma_core": ["conan", "system"],
        # True: Boost, spdlog and rdma-core's headers come from the system, and nothing from Conan.
        "system": [True, False],
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "with_rdma_core": "conan",
        "system": False,
    }
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "lib/*", "LICENSE"

    # The order in which CMake searches them.
    system_includes = ["/usr/local/include", "/usr/include"]

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "boost_rdma", "version.hpp"))
        self.version = ".".join(re.search(rf"^#define BOOST_RDMA_VERSION_{part} (\d+)$", header, re.M).group(1)
                                for part in ("MAJOR", "MINOR", "PATCH"))

    def configure(self):
        if self.options.system:
            self.options.rm_safe("with_rdma_core")
        if self.options.shared:
            self.options.rm_safe("fPIC")
            if not self.options.system:
                # Library and program then share spdlog's registry of loggers, see cmake/Exports.cmake.
                self.options["spdlog"].shared = True

    def layout(self):
        cmake_layout(self)

    @property
    def _rdma_core_of_conan(self):
        return self.options.get_safe("with_rdma_core") == "conan"

    @property
    def _system_boost(self):
        """Major and minor version of the system's Boost, for example "1.81". "none" if it is not installed."""
        root = self.conf.get("tools.build:sysroot", default="")
        for directory in self.system_includes:
            header = os.path.join(root + directory, "boost", "version.hpp")
            if os.path.exists(header):
                version = int(re.search(r"^#define BOOST_VERSION (\d+)", load(self, header), re.M).group(1))
                return f"{version // 100000}.{version // 100 % 1000}"
        return "none"

    def requirements(self):
        if not self.options.system:
            self.requires("boost/1.86.0", transitive_headers=True)
            self.requires("spdlog/1.14.1")
        if self._rdma_core_of_conan:
            # Only the headers, and only for the build: at run time, programs load the system's libibverbs, because it
            # has the drivers of the system's devices.
            self.requires("rdma-core/52.0", headers=True, libs=False, run=False, visible=False)

    def build_requirements(self):
        if not self.options.system:
            self.tool_requires("cmake/[>=3.23 <4]")

    def system_requirements(self):
        debian, fedora, arch = [], [], []
        if not self._rdma_core_of_conan:
            debian += ["libibverbs-dev", "librdmacm-dev"]
            fedora += ["rdma-core-devel"]
            arch += ["rdma-core"]
        if self.options.system:
            debian += ["libspdlog-dev"]
            fedora += ["boost-devel", "spdlog-devel"]
            arch += ["boost", "spdlog"]
            # Debian 12 has Boost 1.81 beside its default 1.74. Keep an installed one: installing another removes it.
            boosts = [[f"libboost1.{minor}-dev"] for minor in range(81, 100)]
            apt = Apt(self)
            if self._system_boost == "none":
                self.output.warning("The package id has no Boost version, because Boost is not installed yet. "
                                    "Run the command again when it is installed.")
            if not any(apt.check(boost) == [] for boost in boosts):
                apt.install_substitutes(["libboost1.81-dev"], ["libboost-dev"])
        if debian:
            Apt(self).install(debian)
            Dnf(self).install(fedora)
            PacMan(self).install(arch)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref} supports Linux only")
        arch = str(self.settings.arch)
        if "64" not in arch and arch not in ("armv8", "armv8.3", "s390x", "sparcv9"):
            raise ConanInvalidConfiguration(f"{self.ref} supports 64-bit systems only, not {arch}")
        check_min_cppstd(self, 20)
        minimum = {"gcc": "12", "clang": "16"}.get(str(self.settings.compiler))
        if minimum is None:
            raise ConanInvalidConfiguration(f"{self.ref} requires GCC or Clang")
        if Version(self.settings.compiler.version) < minimum:
            raise ConanInvalidConfiguration(f"{self.ref} requires {self.settings.compiler} {minimum} or newer")

        # self.dependencies does not contain packages that the profile lists in [platform_requires].
        if "boost" in self.dependencies and Version(self.dependencies["boost"].ref.version) < "1.81":
            raise ConanInvalidConfiguration(f"{self.ref} requires Boost 1.81 or newer")
        # A static or header-only spdlog would give the library its own registry of loggers.
        if self.options.shared and "spdlog" in self.dependencies:
            if not self.dependencies["spdlog"].options.get_safe("shared", False):
                raise ConanInvalidConfiguration(
                    f"{self.ref} with shared=True requires a shared spdlog: set spdlog/*:shared=True")
        if "rdma-core" in self.dependencies:
            if not self.dependencies["rdma-core"].options.get_safe("build_librdmacm", True):
                raise ConanInvalidConfiguration(
                    f"{self.ref} requires the headers of librdmacm: set rdma-core/*:build_librdmacm=True")

    def package_id(self):
        # Program and library must use the same minor version of Boost, because they share Asio's inline functions.
        # Conan adds the version of a dependency to the package id. For the system's Boost, an item of conf adds it; see
        # "Adding information" in https://docs.conan.io/2/reference/conanfile/methods/package_id.html.
        if "boost" not in self.dependencies:
            self.info.conf.define("user.boost_rdma:boost", self._system_boost)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["BOOST_RDMA_BUILD_TESTS"] = False
        toolchain.cache_variables["BOOST_RDMA_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["BOOST_RDMA_BUILD_TOOLS"] = False
        if "rdma-core" in self.dependencies:
            rdma_core = self.dependencies["rdma-core"].cpp_info.aggregated_components()
            include = rdma_core.includedirs[0].replace("\\", "/")
            toolchain.cache_variables["BOOST_RDMA_VERBS_INCLUDE_DIR"] = include
            toolchain.cache_variables["BOOST_RDMA_CM_INCLUDE_DIR"] = include
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # CMake files that find_package() includes, see package_info().
        copy(self, "boost_rdma-same_boost.cmake", os.path.join(self.package_folder, "lib", "cmake", "boost_rdma"),
             os.path.join(self.package_folder, "cmake"))
        copy(self, "boost_rdma-conan.cmake", os.path.join(self.source_folder, "cmake"),
             os.path.join(self.package_folder, "cmake"))
        # Conan generates the other ones for each consumer, from package_info().
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "boost_rdma")
        self.cpp_info.set_property("cmake_target_name", "boost_rdma::boost_rdma")
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion") # as in cmake/Install.cmake
        # This file adds the compile feature cxx_std_20 to the target and checks the version of Boost. CMakeDeps has no
        # property for compile features (https://github.com/conan-io/conan/issues/10281), but includes such files:
        # https://docs.conan.io/2/reference/tools/cmake/cmakedeps.html#properties. The path is the same in the source
        # tree, for editable mode.
        self.cpp_info.set_property("cmake_build_modules", [os.path.join("cmake", "boost_rdma-conan.cmake")])
        self.cpp_info.set_property("pkg_config_name", "boost_rdma")
        self.cpp_info.libs = ["boost_rdma"]
        self.cpp_info.system_libs = ["pthread", "dl"]
        # [platform_requires] replaces dependencies by the system's packages. Conan rejects a list without them
        # (CppInfo.check_component_requires), and some versions of CMakeDeps fail if the list names them
        # (https://github.com/conan-io/conan/issues/17348). Without a list, Conan links each other dependency as a whole.
        if "boost" in self.dependencies and "spdlog" in self.dependencies:
            self.cpp_info.requires = ["boost::headers", "spdlog::spdlog"]
        # A shared library is linked to spdlog itself.
        if "spdlog" not in self.dependencies and not self.options.shared:
            self.cpp_info.system_libs += ["spdlog", "fmt"]
